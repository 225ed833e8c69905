//! Sends of the operator.

use bursar_core::amount::Amount;
use bursar_core::status::SendStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A send and its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SendAnswer {
    pub id: String,
    /// RFC 3339.
    pub at: String,
    pub status: SendStatus,
    /// The meaning of the status, in one sentence.
    pub told: String,
    /// What it does, like `1.500000 USDC` or `withdrawal of 30.000000 USDC`.
    pub summary: String,
    /// Zero if it revokes an allowance.
    pub amount: Amount,
    /// `None` for the native coin.
    pub token_address: Option<String>,
    pub label: String,
    pub from: String,
    pub to: String,
    pub network: String,
    pub caip2: String,
    pub nonce: Option<u64>,
    /// The mined transaction, or the newest one that was signed.
    pub tx_hash: Option<String>,
    pub block: Option<u64>,
}
