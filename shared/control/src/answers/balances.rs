//! Balances of addresses. A missing amount is unknown, not zero, and its reason is next to it.

use bursar_core::amount::Amount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The balances of one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HoldingsAnswer {
    pub label: String,
    pub address: String,
    pub networks: Vec<NetworkHoldingsAnswer>,
}

/// The balances of one address on one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkHoldingsAnswer {
    pub chain_id: u64,
    pub caip2: String,
    pub name: String,
    /// The native coin, the dollar token, other known tokens, then tokens reported by the explorer.
    pub balances: Vec<BalanceAnswer>,
    /// Why none of the known coins could be read.
    pub error: Option<String>,
    /// Why tokens may be missing from the list.
    pub incomplete: Option<String>,
}

/// The balance of one coin or token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BalanceAnswer {
    /// The token's own claim, if it is not verified.
    pub symbol: String,
    /// `None` for the native coin.
    pub token_address: Option<String>,
    pub decimals: Option<u8>,
    /// `None` if it could not be read.
    pub amount: Option<Amount>,
    /// Why the amount is unknown, or is known only in smallest units.
    pub amount_unknown_reason: Option<String>,
    /// Only for the network's dollar token.
    pub usd: Option<String>,
    /// The token is in Bursar's own table.
    pub verified: bool,
}
