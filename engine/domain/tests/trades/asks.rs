//! Trades and quotes as the lane measures them.

use alloy_primitives::{Address, U256};
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::networks::ChainId;
use bursar_core::policy::Policy;
use bursar_core::time::Utc;
use bursar_domain::trades::{Effects, TradeAsk, TradeQuote, TradeToken, Venue};

use crate::support::build;

pub(crate) const BASE: ChainId = ChainId(8453);
pub(crate) const ROBINHOOD: ChainId = ChainId(4663);

/// The native coin that the paying address holds: one ETH.
pub(crate) const HELD_WEI: u64 = 1_000_000_000_000_000_000;

/// The worst cost of a plan, in wei.
pub(crate) const PLAN_COST: u64 = 1_000_000_000_000;

/// What a quote pays for one micro-dollar.
const OUT_PER_MICRO: u64 = 1_000;

/// 500 dollars a day, 100 per trade, automatic below 50; agents 0 and 1 share an address.
pub(crate) fn policy() -> Policy {
    let mut policy = build::policy();
    policy.trading.enabled = true;
    policy.trading.auto_below = Usd::dollars(50);
    policy
}

/// A healthy quote for so many micro-dollars.
pub(crate) fn quote(micros: u64) -> TradeQuote {
    TradeQuote {
        block: 100,
        block_time: 0,
        at: Utc(0),
        out: Atoms(U256::from(micros) * U256::from(OUT_PER_MICRO)),
        gas: 150_000,
        impact: Some(Bps(30)),
        value_in: Some(Usd(micros)),
        value_out: Some(Usd(micros)),
        native_balance: U256::from(HELD_WEI),
        balance_in: U256::from(1_000_000_000u64),
        plan_cost: U256::from(PLAN_COST),
        effects: Effects::Proven,
    }
}

/// A trade of so many micro-dollars of USDC for WETH on Base, with a slippage of 1 %.
pub(crate) fn trade(micros: u64) -> TradeAsk {
    let token = |address: Address, symbol: &str, decimals| TradeToken {
        address: Some(address),
        symbol: symbol.to_owned(),
        decimals,
    };
    TradeAsk {
        chain: BASE,
        token_in: token(build::base().stablecoin.address, "USDC", 6),
        token_out: token(Address::repeat_byte(0x42), "WETH", 18),
        amount_in: Atoms(U256::from(micros)),
        venue: Venue::V3 { fee: 500, pool: Address::repeat_byte(0x77) },
        slippage: Bps(100),
        deadline: None,
        quote: quote(micros),
        counted: Usd(micros),
    }
}

/// The same trade on another network.
pub(crate) fn on(chain: ChainId, trade: TradeAsk) -> TradeAsk {
    TradeAsk { chain, ..trade }
}

/// The same trade with another quote. Its value counts, or `most` if it has none.
pub(crate) fn quoted(trade: TradeAsk, quote: TradeQuote, most: Usd) -> TradeAsk {
    TradeAsk { counted: quote.value_in.unwrap_or(most), quote, ..trade }
}
