//! The commands `quote` and `allowances`.

use bursar_core::ids::Name;
use bursar_core::money::Bps;
use clap::Args;
use serde::{Deserialize, Serialize};

/// `quote`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct QuoteOrder {
    /// The label of the address that would trade; it must hold the amount.
    pub label: Name,
    /// The amount to give in coins or tokens, like 1.5.
    pub amount: String,
    /// What to give: a symbol that Bursar knows, like ETH or USDC, or a token's address.
    pub token_in: String,
    /// What to get: a symbol or an address.
    pub token_out: String,
    /// The network [default: Robinhood Chain, as for an agent's trade that names none].
    #[arg(long)]
    pub network: Option<String>,
    /// Take the pool with this fee in hundredths of a basis point, like 500 for 0.05 %.
    #[arg(long)]
    pub fee: Option<u32>,
    /// Take a pool of Uniswap v4 instead of v3.
    #[arg(long, requires = "fee")]
    pub v4: bool,
    /// The tick spacing of the v4 pool [default: the usual one of the fee].
    #[arg(long, requires = "v4")]
    pub tick_spacing: Option<u32>,
    /// The hook of the v4 pool [default: none].
    #[arg(long, value_name = "ADDRESS", requires = "v4")]
    pub hooks: Option<String>,
    /// Take the route that pays most after gas; this is the default.
    #[arg(long, conflicts_with = "fee")]
    pub best: bool,
    /// The largest difference of a fill from the quote [default: 0.5, or the policy's maximum if that is lower].
    #[arg(long, value_name = "PERCENT", value_parser = Bps::parse_percent)]
    pub slippage: Option<Bps>,
    /// Also show what this policy would decide about the trade, as the first of the day.
    #[arg(long)]
    pub policy: Option<Name>,
}

/// `allowances`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct AllowancesOrder {
    /// Only this address.
    #[arg(long, value_name = "LABEL")]
    pub address: Option<Name>,
    /// Only this network [default: all enabled networks with an exchange or venues].
    #[arg(long)]
    pub network: Option<String>,
    /// Set every allowance that is not zero to zero, after a confirmation; each is a transaction that pays gas.
    #[arg(long)]
    pub revoke: bool,
    /// Revoke without asking.
    #[arg(long, requires = "revoke")]
    pub yes: bool,
}
