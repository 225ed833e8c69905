//! Quotes of trades, and the allowances that exchanges have.

use bursar_core::amount::Amount;
use bursar_core::card::TradeCard;
use bursar_core::status::{PolicyVerdict, SendStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A trade that was measured and rehearsed, but not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuoteAnswer {
    pub network: String,
    pub caip2: String,
    pub label: String,
    pub address: String,
    /// The zero address is the native coin.
    pub token_in: String,
    pub token_out: String,
    pub amount_in: Amount,
    pub amount_out: Amount,
    pub minimum_out: Amount,
    /// The card that this trade would show.
    pub trade: TradeCard,
    /// The compared routes with the highest outputs before gas, the highest output first.
    pub routes: Vec<RouteAnswer>,
    /// The decision that the named policy would make.
    pub verdict: Option<VerdictAnswer>,
}

/// A route and its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteAnswer {
    /// In words, like `Uniswap v3, fee 0.05 %, 0x…`.
    pub route: String,
    pub amount_out: Amount,
}

/// The decision that a policy would make about a trade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictAnswer {
    pub policy: String,
    pub verdict: PolicyVerdict,
    /// The code of the refusal, or the stable text of the hold reason; `None` if the policy would act at once.
    pub code: Option<String>,
    pub reason: String,
}

/// The allowances that are not zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllowancesAnswer {
    pub allowances: Vec<AllowanceAnswer>,
    /// The addresses and networks whose allowances could not be read.
    pub unread: Vec<UnreadAnswer>,
    /// The number of allowances that were read, including zero allowances.
    pub read: usize,
}

/// One allowance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllowanceAnswer {
    pub label: String,
    pub address: String,
    pub network: String,
    pub caip2: String,
    pub token_address: String,
    /// The token's own claim, if it is not verified.
    pub symbol: String,
    /// The token is in Bursar's own table.
    pub verified: bool,
    /// The contract that may take tokens from the address.
    pub spender: String,
    pub spender_name: String,
    pub amount: Amount,
    /// The allowance exceeds any possible balance.
    pub unlimited: bool,
    /// When an allowance within Permit2 expires, RFC 3339; `None` for a token's own allowance, which never expires.
    pub until: Option<String>,
    /// Why the allowance was not revoked, or the state of the revoking transaction; `None` if no revocation was tried.
    pub outcome: Option<String>,
    pub status: Option<SendStatus>,
    pub tx_hash: Option<String>,
}

/// An address and network whose allowances are unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadAnswer {
    pub label: String,
    pub network: String,
    pub reason: String,
}
