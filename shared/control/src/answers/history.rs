//! Past requests, their receipts and their export.

use bursar_core::amount::Amount;
use bursar_core::card::Lane;
use bursar_core::networks;
use bursar_core::payee_label::PayeeLabel;
use bursar_core::status::RequestStatus;
use bursar_core::text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Matching requests, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    pub requests: Vec<HistoryRow>,
    /// There are older matching requests.
    pub more: bool,
}

impl HistoryRow {
    /// Formats the symbol, also for tokens outside our table: see [`text::symbol`].
    pub fn symbol_text(&self) -> Option<String> {
        let own = self.symbol.as_ref()?;
        Some(if self.is_foreign() { text::symbol(own, &self.asset) } else { own.clone() })
    }

    /// Returns whether the token that moves is not in our table.
    pub fn is_foreign(&self) -> bool {
        // The native coin has the address zero.
        !networks::by_id_or_v1_name(&self.network).is_some_and(|network| {
            let mut known = network.known_tokens().map(|known| known.address.unwrap_or_default());
            known.any(|known| known.to_checksum(None) == self.asset)
        })
    }
}

/// One request with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    pub id: String,
    pub created: String,
    /// The time at which a request that was never signed was denied, refused or expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    pub lane: Lane,
    pub agent_id: String,
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_unknown_reason: Option<String>,
    /// Label of the paying address.
    pub label: String,
    pub status: RequestStatus,
    /// The step that a trade's plan takes now, like `1/2 token approval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The amount that leaves the payer or, for a withdrawal, the venue.
    pub amount: Amount,
    pub symbol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol_unknown_reason: Option<String>,
    pub usd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd_unknown_reason: Option<String>,
    pub asset: String,
    /// CAIP-2.
    pub network: String,
    pub payee: String,
    /// The operator's name of the payee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payee_name: Option<PayeeLabel>,
    /// Host of the URL that the agent named, or else of the paid resource.
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_unknown_reason: Option<String>,
    pub tx_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_hash_unknown_reason: Option<String>,
    /// The details of a trade; `None` for a request of another lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trade: Option<TradeAnswer>,
    /// The details of a loan; `None` for a request of another lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loan: Option<LoanAnswer>,
    /// Why the request was refused; for a limit, with the compared amounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The output of a trade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TradeAnswer {
    /// The token's own text, unless the token is in Bursar's table.
    pub symbol_out: String,
    /// The zero address is the native coin.
    pub asset_out: String,
    /// The amount that arrived; `None` before the swap is final, or if its receipt does not show it.
    pub amount_out: Option<Amount>,
}

/// The result of a loan.
///
/// The `amount` of its row is the requested one, or an estimate if the agent requested shares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoanAnswer {
    /// `supply` or `withdraw`.
    pub action: String,
    /// The address of a vault or the id of a market.
    pub venue: String,
    /// The venue's own name: untrusted text.
    pub venue_name: String,
    /// The amount that moved; `None` before the loan is final, or if its receipt does not show it.
    pub moved: Option<Amount>,
    /// The address's position in the venue afterwards; `None` if it is not known.
    pub position: Option<Amount>,
}

/// A receipt, with details that its standard form has no field for.
///
/// `--json` prints only `form`, exactly as agents receive it. It omits the other fields, because agents must not
/// learn limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptAnswer {
    /// In AP2 format, as the agent server returns it.
    pub form: serde_json::Value,
    /// The operator's name of the payee.
    ///
    /// The form does not contain it, because agents receive the form, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payee_name: Option<PayeeLabel>,
    pub refused: Option<RefusedAnswer>,
    /// The journal kept only the origins of the request's URLs.
    pub origins_only: bool,
}

/// A proof that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofAnswer {
    pub file: String,
    pub request: String,
    /// The head on which it rests: the hash of an anchor, which a reader can note.
    pub head: String,
    /// The last entry to which the anchor commits.
    pub through: u64,
    /// The entries that it contains.
    pub entries: Vec<u64>,
    /// The address that signed it; `None` if the wallet no longer has the paying address.
    pub signer: Option<String>,
}

/// The check of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProofCheckAnswer {
    pub good: bool,
    /// Its defects; empty if it is good.
    pub defects: Vec<String>,
    /// What a good proof shows and what it does not.
    pub meaning: String,
    pub signer: Option<String>,
    pub head: String,
    pub entries: Vec<u64>,
    /// The last entry to which the anchor commits; `None` if the anchor cannot be read.
    pub through: Option<u64>,
    /// When the anchor was written, in UTC.
    pub anchored: Option<String>,
    /// What happened to the journal as a whole before the anchor.
    pub notes: Vec<String>,
    /// The receipt in AP2 form, read from the entries.
    pub receipt: Option<serde_json::Value>,
}

/// A refusal, explained to the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedAnswer {
    pub why: String,
    /// The agent's current policy, if a change of this policy could allow the payment.
    pub policy: Option<String>,
    /// The option of `policy edit` that changes the limit.
    pub option: Option<String>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportAnswer {
    pub file: String,
    pub rows: u64,
}
