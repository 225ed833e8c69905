//! What the operator sent.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendAnswer {
    pub id: String,
    /// RFC 3339.
    pub at: String,
    /// `waiting` (nothing is broadcast yet), `sent`, `included`, `done`, `failed`, `cancelled`, `dropped` or
    /// `unknown`.
    pub status: String,
    /// What that means, one sentence.
    pub told: String,
    /// With the symbol, in whole coins.
    pub amount: String,
    pub amount_atomic: String,
    /// `None` for the native coin.
    pub token_address: Option<String>,
    pub label: String,
    pub from: String,
    pub to: String,
    pub network: String,
    pub caip2: String,
    pub nonce: Option<u64>,
    /// The newest transaction that was broadcast for it, or the one that was mined.
    pub tx_hash: Option<String>,
    pub block: Option<u64>,
}
