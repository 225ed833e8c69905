//! Applies a policy to one trade. The rules are in the order of their application: the first refusal wins, and a
//! trade is held only if no rule refuses it.

use alloy_primitives::{Address, U256};
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::limits::CLOCK_OFF_CHAIN_MS_MAX;
use bursar_core::money::{Bps, Usd};
use bursar_core::networks;
use bursar_core::policy::{Policy, TradingPolicy};

use super::{Verdict, hold};
use crate::effects::Effects;
use crate::refusal::Refusal;
use crate::trades::{TradeAsk, TradeQuote, TradeToken, Venue};

/// Everything that the rules read.
#[derive(Debug)]
pub struct TradeContext<'a> {
    pub ask: &'a TradeAsk,
    /// The newest quote.
    pub quote: &'a TradeQuote,
    pub policy: &'a Policy,
    pub network_enabled: bool,
    /// Whether the journal matches the wallet.
    pub trusted: bool,
    /// Whether this machine's clock is far off the newest block.
    pub is_clock_off: bool,
    /// This machine's clock, in Unix seconds.
    pub now: u64,
    pub commitments: Commitments,
    /// Volume already spent of the allowance in force.
    pub spent: Usd,
    /// Volume reserved by the agent's other trades.
    pub reserved: Usd,
    pub held_by_agent: usize,
    pub held_in_all: usize,
}

/// Amounts that transactions in flight and signed payments may still take from the paying address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commitments {
    /// The amount of the native coin in wei, including gas.
    pub native: U256,
    /// The amount of the input token.
    pub token_in: U256,
}

/// Decides whether a trade is executed, held or refused.
pub fn assess(context: &TradeContext<'_>) -> Verdict {
    match check_refusals(context) {
        Err(refusal) => Verdict::Refuse(refusal),
        Ok(()) => match hold_reason(context) {
            None => Verdict::Act,
            Some(reason) => hold(reason, context.held_by_agent, context.held_in_all),
        },
    }
}

/// Returns the value that a trade counts against the daily volume.
///
/// This is the value of its input, or the policy's maximum for one trade if that value is unknown.
pub fn counted_value(quote: &TradeQuote, trading: &TradingPolicy) -> Usd {
    quote.value_in.unwrap_or(trading.per_trade)
}

fn check_refusals(context: &TradeContext<'_>) -> Result<(), Refusal> {
    let TradeContext { ask, quote, .. } = context;
    let trading = &context.policy.trading;
    if !trading.enabled {
        return Err(Refusal::new(Code::TradingDisabled));
    }
    if !context.network_enabled {
        return Err(Refusal::new(Code::NetworkDisabled));
    }
    if !context.policy.networks.allows(ask.chain) {
        return Err(Refusal::new(Code::NetworkNotAllowed));
    }
    if ask.deadline.is_some_and(|deadline| deadline <= context.now.max(quote.block_time)) {
        return Err(Refusal::new(Code::DeadlinePassed));
    }
    if ask.slippage > trading.max_slippage && !is_one_to_one(ask) {
        return Err(Refusal::because(
            Code::ExceedsMaxSlippage,
            format!(
                "max_slippage_bps is {}, above the policy's maximum of {}.",
                ask.slippage.0, trading.max_slippage.0
            ),
        ));
    }
    if let Some(value) = quote.value_in
        && value > trading.per_trade
    {
        return Err(Refusal::over_limit(Code::ExceedsPerTradeMax, value, trading.per_trade));
    }
    check_funds(context)?;
    let counted = counted_value(quote, trading);
    let committed = context.spent.checked_add(context.reserved);
    let after = committed.and_then(|committed| committed.checked_add(counted));
    if !after.is_ok_and(|after| after <= trading.daily) {
        let left = committed.map_or(Usd::ZERO, |committed| trading.daily.left_after(committed));
        return Err(Refusal::over_limit(Code::ExceedsDailyVolume, counted, left));
    }
    Ok(())
}

/// Checks that the address holds enough native coin for value, gas and the policy's minimum, and enough of the input
/// token.
fn check_funds(context: &TradeContext<'_>) -> Result<(), Refusal> {
    let TradeContext { ask, quote, commitments: promised, .. } = context;
    let sends_native = ask.token_in.address.is_none();
    let value = if sends_native { ask.amount_in.0 } else { U256::ZERO };
    let leaving =
        promised.native.checked_add(value).and_then(|sum| sum.checked_add(quote.plan_cost));
    let left = leaving.and_then(|leaving| quote.native_balance.checked_sub(leaving));
    let least = U256::from(context.policy.trading.min_native.0);
    if left.is_none_or(|left| left < least) {
        return Err(Refusal::new(Code::BelowMinNative));
    }
    if !sends_native {
        let free = quote.balance_in.checked_sub(promised.token_in);
        if free.is_none_or(|free| free < ask.amount_in.0) {
            return Err(Refusal::because(
                Code::InsufficientFunds,
                "The balance of the paying address, less amounts in flight, is below the input.",
            ));
        }
    }
    Ok(())
}

/// Returns the reason to ask the operator, if there is one. Unusual reasons come before ordinary ones.
fn hold_reason(context: &TradeContext<'_>) -> Option<HoldReason> {
    let TradeContext { ask, quote, .. } = context;
    let trading = &context.policy.trading;
    let auto = trading.auto_below;
    if !context.trusted {
        return Some(HoldReason::JournalUntrusted);
    }
    if context.is_clock_off || is_block_ahead(context) {
        return Some(HoldReason::ClockOff);
    }
    let Some(value) = quote.value_in else { return Some(HoldReason::NoValue) };
    if !is_one_to_one(ask) {
        match quote.impact {
            None => return Some(HoldReason::ImpactUnknown),
            Some(impact) if impact > trading.max_impact => {
                return Some(HoldReason::ImpactAboveCeiling);
            }
            Some(_within) => {}
        }
        if has_better_route(quote, trading.max_impact) {
            return Some(HoldReason::BetterRoute);
        }
        if has_unlisted_hooks(ask, trading) {
            return Some(HoldReason::HookedPool);
        }
        if [&ask.token_in, &ask.token_out].iter().any(|token| is_unlisted(ask, token, trading)) {
            return Some(HoldReason::UnlistedToken);
        }
        match quote.value_out {
            Some(out) if loses_too_much_value(value, out, trading.max_impact) => {
                return Some(HoldReason::UnfairValue);
            }
            // ETH lacks a price only if its sources fail or disagree.
            None if is_eth(ask, &ask.token_out) => return Some(HoldReason::OutputUnpriced),
            Some(_) | None => {}
        }
    }
    if quote.effects != Effects::Proven {
        return Some(HoldReason::EffectsUnproven);
    }
    if auto == Usd::ZERO {
        Some(HoldReason::ManualOnly)
    } else if value >= auto {
        Some(HoldReason::AboveThreshold)
    } else {
        None
    }
}

/// Returns whether the quote's block is over ten minutes in the future of our clock.
///
/// The deadlines of a swap and of its permit are computed from the time of that block.
fn is_block_ahead(context: &TradeContext<'_>) -> bool {
    let most = context.now.saturating_add(CLOCK_OFF_CHAIN_MS_MAX.unsigned_abs() / 1_000);
    context.quote.block_time > most
}

/// Returns whether the trade only wraps or unwraps the native coin, so that its output equals its input.
fn is_one_to_one(ask: &TradeAsk) -> bool {
    matches!(ask.venue, Venue::Wrap | Venue::Unwrap)
}

/// Returns whether this route pays less than the best route by more than `ceiling`.
fn has_better_route(quote: &TradeQuote, ceiling: Bps) -> bool {
    quote.best_route.as_ref().is_some_and(|best| {
        let least = bursar_uniswap::price::floor_out(best.out.0, ceiling);
        least.is_some_and(|least| quote.out.0 < least)
    })
}

/// Returns whether the pool calls a hook contract, or takes its fee from one, that the policy does not list.
fn has_unlisted_hooks(ask: &TradeAsk, trading: &TradingPolicy) -> bool {
    match ask.venue {
        Venue::V4 { fee, hooks, .. } => {
            let calls = hooks != Address::ZERO || fee == bursar_uniswap::pool::DYNAMIC_FEE;
            calls && !trading.hooks.contains(hooks)
        }
        Venue::Wrap | Venue::Unwrap | Venue::V3 { .. } | Venue::V3Path { .. } => false,
    }
}

/// Returns whether a token is neither in our table nor on the policy's list.
fn is_unlisted(ask: &TradeAsk, token: &TradeToken, trading: &TradingPolicy) -> bool {
    let Some(address) = token.address else { return false };
    let known = networks::by_chain(ask.chain)
        .is_some_and(|network| network.is_dollar_or_wrapped_native(address));
    !known && !trading.tokens.contains(address)
}

/// Returns whether a token is the native coin or wraps it.
fn is_eth(ask: &TradeAsk, token: &TradeToken) -> bool {
    let exchange = networks::by_chain(ask.chain).and_then(|network| network.exchange);
    token.address.is_none() || token.address == exchange.map(|exchange| exchange.wrapped_native)
}

/// Returns whether the value of the output is below that of the input by more than `ceiling`.
fn loses_too_much_value(value_in: Usd, value_out: Usd, ceiling: Bps) -> bool {
    let kept = 10_000u64.saturating_sub(u64::from(ceiling.0));
    let least = u128::from(value_in.0).saturating_mul(u128::from(kept));
    u128::from(value_out.0).saturating_mul(10_000) < least
}
