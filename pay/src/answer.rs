//! The `data` of `bursar pay --json`.

use std::collections::BTreeMap;

use bursar_core::amount::Amount;
use schemars::JsonSchema;
use serde::Serialize;

/// A purchase, also one that failed or was interrupted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PurchaseAnswer {
    /// The HTTP status of the last response; `None` without one.
    pub(crate) status: Option<u16>,
    /// Headers of the response that a script may need.
    pub(crate) headers: BTreeMap<&'static str, String>,
    #[serde(flatten)]
    pub(crate) body: BodyAnswer,
    /// The wallet's id of the request, which is also the id of the payment.
    pub(crate) request_id: Option<String>,
    /// The payment that was signed; `None` if none was.
    pub(crate) paid: Option<PaidAnswer>,
    /// The server's receipt, which the chain has not confirmed.
    pub(crate) receipt: Option<ServerReceipt>,
    /// Whether the wallet accepted the report of the settlement; `None` without a report.
    pub(crate) reported: Option<bool>,
}

/// The body of the response.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct BodyAnswer {
    /// `None` if it was written to standard output or a file, or is too long.
    pub(crate) body: Option<String>,
    /// `text` or `base64`.
    pub(crate) body_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body_unknown_reason: Option<&'static str>,
}

/// A signed payment.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PaidAnswer {
    pub(crate) amount: Amount,
    /// The symbol, if Bursar knows the token.
    pub(crate) token: Option<&'static str>,
    /// EIP-55.
    pub(crate) asset: String,
    /// CAIP-2.
    pub(crate) network: String,
    /// EIP-55.
    pub(crate) payee: String,
    /// The transaction that the server names.
    pub(crate) transaction: Option<String>,
    /// Number of attempts to send the payment that may have reached the server.
    pub(crate) sent: u32,
    pub(crate) x402_version: u64,
}

/// The receipt that a server returned.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServerReceipt {
    pub(crate) success: bool,
    pub(crate) transaction: Option<String>,
    pub(crate) network: Option<String>,
    pub(crate) payer: Option<String>,
    pub(crate) error_reason: Option<String>,
    pub(crate) error_message: Option<String>,
}
