//! What addresses hold. An amount that is not there is unknown and has its reason beside it: it is not zero.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldingsAnswer {
    pub label: String,
    pub address: String,
    pub networks: Vec<NetworkHoldingsAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkHoldingsAnswer {
    pub chain_id: u64,
    pub caip2: String,
    pub name: String,
    /// The native coin, the dollar token, other known tokens, then what the explorer knows of.
    pub balances: Vec<BalanceAnswer>,
    /// Why nothing of the known coins could be read, if so.
    pub error: Option<String>,
    /// Why tokens may be missing from the list, if so.
    pub incomplete: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceAnswer {
    /// Of an unverified token, what it calls itself.
    pub symbol: String,
    /// `None` for the native coin.
    pub token_address: Option<String>,
    pub decimals: Option<u8>,
    /// In whole coins.
    pub amount: Option<String>,
    /// In smallest units.
    pub amount_atomic: Option<String>,
    /// Why there is no amount.
    pub amount_unknown_reason: Option<String>,
    /// Only of the network's dollar token.
    pub usd: Option<String>,
    /// The token is in Bursar's own table.
    pub verified: bool,
}
