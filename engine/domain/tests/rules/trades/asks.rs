//! Trades and their quotes, as the lane would measure them.

use alloy_primitives::{Address, B256, U256};
use bursar_core::money::{Atoms, Bps, Usd};
use bursar_core::networks::{self, ChainId};
use bursar_core::policy::Policy;
use bursar_core::time::Utc;
use bursar_domain::effects::Effects;
use bursar_domain::trades::{TradeAsk, TradeQuote, TradeToken, Venue};

use crate::support::build;

pub(crate) const BASE: ChainId = ChainId(8453);
pub(crate) const ROBINHOOD: ChainId = ChainId(4663);

/// The native coin that the paying address holds: one ETH.
pub(crate) const HELD_WEI: u64 = 1_000_000_000_000_000_000;

/// The worst cost of a plan, in wei.
pub(crate) const PLAN_COST: u64 = 1_000_000_000_000;

/// The price of one ETH.
pub(crate) const ETH_PRICE: Usd = Usd::dollars(3_000);

/// The output that a quote pays per micro-dollar.
const OUT_PER_MICRO: u64 = 1_000;

/// A policy with 500 dollars a day, 100 per trade, automatic below 50.
///
/// Agents 0 and 1 share an address.
pub(crate) fn policy() -> Policy {
    let mut policy = build::policy();
    policy.trading.enabled = true;
    policy.trading.auto_below = Usd::dollars(50);
    policy
}

/// A quote for `micros` micro-dollars that passes every rule.
pub(crate) fn quote(micros: u64) -> TradeQuote {
    TradeQuote {
        block: 100,
        block_time: 0,
        at: Utc(0),
        out: Atoms(U256::from(micros) * U256::from(OUT_PER_MICRO)),
        gas: 150_000,
        best_route: None,
        impact: Some(Bps(30)),
        value_in: Some(Usd(micros)),
        value_out: Some(Usd(micros)),
        native_price: Some(ETH_PRICE),
        native_balance: U256::from(HELD_WEI),
        balance_in: U256::from(1_000_000_000u64),
        plan_cost: U256::from(PLAN_COST),
        effects: Effects::Proven,
        received: None,
        calls: Vec::new(),
    }
}

/// A trade of `micros` micro-dollars of USDC for WETH on Base, with a slippage of 1 %.
pub(crate) fn trade(micros: u64) -> TradeAsk {
    let token = |address: Address, symbol: &str, decimals| TradeToken {
        address: Some(address),
        symbol: symbol.to_owned(),
        decimals,
    };
    TradeAsk {
        chain: BASE,
        token_in: token(build::base().stablecoin.address, "USDC", 6),
        token_out: token(build::base().exchange.expect("an exchange").wrapped_native, "WETH", 18),
        amount_in: Atoms(U256::from(micros)),
        venue: Venue::V3 { fee: 500, pool: Address::repeat_byte(0x77) },
        slippage: Bps(100),
        deadline: None,
        quote: quote(micros),
        counted_value: Usd(micros),
    }
}

/// The same trade on another network.
pub(crate) fn trade_on(chain: ChainId, trade: TradeAsk) -> TradeAsk {
    let network = networks::by_chain(chain).expect("a network");
    let mut trade = TradeAsk { chain, ..trade };
    trade.token_in.address = Some(network.stablecoin.address);
    trade.token_out.address = network.exchange.map(|exchange| exchange.wrapped_native);
    trade
}

/// The same trade in a pool of v4, whose router takes the input by a permit.
pub(crate) fn in_v4(trade: TradeAsk) -> TradeAsk {
    let (tick_spacing, hooks, pool) = (10, Address::ZERO, B256::repeat_byte(0x66));
    TradeAsk { venue: Venue::V4 { fee: 500, tick_spacing, hooks, pool }, ..trade }
}

/// The same trade with another quote.
///
/// The quote's value counts, or `most` if the quote has no value.
pub(crate) fn with_quote(trade: TradeAsk, quote: TradeQuote, most: Usd) -> TradeAsk {
    TradeAsk { counted_value: quote.value_in.unwrap_or(most), quote, ..trade }
}
