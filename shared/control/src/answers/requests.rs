//! The answers to `requests`, `approve` and `deny`.

use bursar_core::amount::Amount;
use bursar_core::card::{Card, Lane};
use bursar_core::codes::Code;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::status::{DecidedStatus, RequestStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pending request, or with `requests --all` a decided one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestAnswer {
    pub id: String,
    pub lane: Lane,
    pub agent_id: String,
    pub status: RequestStatus,
    /// The step that a trade's plan takes now, like `1/2 token approval`.
    #[serde(default)]
    pub step: Option<String>,
    /// What it would do, like `1.500000 USDC` or `25.000000 USDC > WETH`.
    pub summary: String,
    /// The amount that leaves the payer or, for a withdrawal, the venue.
    pub amount: Amount,
    pub asset: String,
    pub payee: String,
    /// The operator's name of the payee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payee_name: Option<PayeeLabel>,
    pub domain: Option<String>,
    pub created: String,
    pub expires_in_seconds: Option<u64>,
    /// The time left in milliseconds, for a countdown in the receiving program.
    pub expires_in_ms: Option<u64>,
    /// The age of the quote on the card of a trade or loan; `None` for a payment and without a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote_age_ms: Option<u64>,
    /// The value from which an approval must be typed; `None` without a card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typing_threshold: Option<String>,
    pub card: Option<Card>,
}

/// A request that the operator has just decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecidedAnswer {
    pub id: String,
    pub lane: Lane,
    pub status: DecidedStatus,
    /// As on the card, like `1.500000 USDC`.
    pub summary: String,
    pub payee: String,
}

/// The results of one command that denied several requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DenialsAnswer {
    /// The ids of the denied requests.
    pub denied: Vec<String>,
    pub not_denied: Vec<NotDenied>,
}

/// A request that could not be denied, for example because another operator had decided it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotDenied {
    pub id: String,
    pub code: Code,
    pub message: String,
}
