//! Past requests in answers.

use serde::{Deserialize, Serialize};

/// Requests that fit, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryAnswer {
    pub requests: Vec<HistoryRow>,
    /// Older ones fit as well.
    pub more: bool,
}

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRow {
    pub id: String,
    pub created: String,
    pub lane: String,
    pub agent_id: String,
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_unknown_reason: Option<String>,
    /// Label of the paying address.
    pub label: String,
    /// A word of `history --status`.
    pub status: String,
    /// In token units.
    pub amount: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_unknown_reason: Option<String>,
    pub amount_atomic: String,
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
    /// Of the URL that the agent named, else of the paid resource.
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_unknown_reason: Option<String>,
    pub tx_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_hash_unknown_reason: Option<String>,
    /// Why a policy refused it, with the figures that met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A receipt, and what its form has no place for. Only the form is printed as JSON: it is what agents get
/// and pass on, and limits are not theirs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptAnswer {
    /// In AP2's form, as the agent server gives it.
    pub form: serde_json::Value,
    pub refused: Option<RefusedAnswer>,
    /// Of its URLs the journal has the origins alone.
    pub origins_only: bool,
}

/// A policy's "no" in an operator's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedAnswer {
    pub why: String,
    /// The policy that the agent works under now, where another one would have let it through.
    pub policy: Option<String>,
    /// The option of `policy edit` that moves the limit.
    pub option: Option<String>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportAnswer {
    pub file: String,
    pub rows: u64,
}
