//! Judges one trade at one instant, in one possible configuration: refuse, hold, or execute.

use crate::ExchangeFact;
use crate::basics::Address;
use crate::clocks::Instant;
use crate::config::Config;
use crate::market::{ChainTime, Market, is_v4, is_wrap};
use crate::observations::Policy;
use crate::trading::{NATIVE, Pool, Quoted, Trade};
use crate::wide::Wide;
use std::collections::BTreeSet;

/// The fee that marks a pool with a dynamic fee.
const DYNAMIC_FEE: u32 = 0x80_0000;
/// The slippage of a call that sets none, in basis points.
const DEFAULT_SLIPPAGE: u32 = 50;

/// The reason to refuse a trade that no node quoted.
pub(crate) const UNQUOTED: &str = "no node quoted it";

/// One state in which a trade may have been judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) config: Config,
    pub(crate) now: Instant,
    /// The part of the daily volume that other trades have used, in micro-dollars: (least, most).
    pub(crate) used: (u64, u64),
    /// Whether a limit on held requests, or a shared balance, may be a reason to refuse the trade.
    pub(crate) crowded: bool,
    /// Whether the wallet doubts its journal.
    pub(crate) doubted: bool,
    /// The most that may be left of the unattended day, in micro-dollars; `None` if that is not limited.
    pub(crate) unattended_left: Option<u64>,
    /// The newest block time that the wallet knew, in Unix seconds.
    pub(crate) newest_s: u64,
}

/// Everything that one judgement depends on.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) config: &'a Config,
    pub(crate) policy: &'a Policy,
    pub(crate) market: &'a Market,
    pub(crate) exchange: Option<&'a ExchangeFact>,
    pub(crate) trade: &'a Trade,
    /// The addresses that may pay; empty if unknown.
    pub(crate) payers: &'a BTreeSet<Address>,
    /// The observation at which the call, or the approval, arrived.
    pub(crate) from: u64,
    pub(crate) now: Instant,
    /// The part of the daily volume that other trades have used, in micro-dollars: (least, most).
    pub(crate) used: (u64, u64),
    /// Whether a limit on held requests, or a shared balance, may be a reason to refuse the trade.
    pub(crate) crowded: bool,
    /// Whether the wallet doubts its journal.
    pub(crate) doubted: bool,
    /// The most that may be left of the unattended day, in micro-dollars; `None` if that is not limited.
    pub(crate) unattended_left: Option<u64>,
    /// The newest block time that the wallet knew, in Unix seconds.
    pub(crate) newest_s: u64,
}

/// The correct decisions about one trade in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The reason why the trade must be refused, if there is one.
    pub(crate) must_refuse: Option<&'static str>,
    /// Whether the trade must be refused because of the daily volume.
    pub(crate) must_refuse_for_volume: bool,
    /// Whether it may be refused because of the daily volume.
    pub(crate) may_refuse_for_volume: bool,
    /// The reason why the trade must not be executed without an approval, if there is one.
    pub(crate) must_hold: Option<&'static str>,
    /// Whether there is surely no reason to refuse the trade.
    pub(crate) must_accept: bool,
    /// The value that the trade takes from the daily volume, in micro-dollars: (least, most).
    pub(crate) value: (u64, u64),
    pub(crate) slippage: u32,
}

impl Case<'_> {
    pub(crate) fn judge(&self) -> Verdict {
        let trading = &self.policy.trading;
        let known = self.known_value();
        let max = trading.per_trade;
        let value = match known {
            // If reading the price failed for a moment, the wallet did not know the value and counted the maximum per
            // trade.
            Ok((least, most)) if self.has_exact_value() => (least, most),
            Ok((least, most)) => (least.min(max), most.max(max)),
            Err(_) => (max, max),
        };
        let (least, most) =
            (self.used.0.saturating_add(value.0), self.used.1.saturating_add(value.1));
        let slippage = self.slippage();
        let must_refuse = self.must_refuse(known);
        Verdict {
            must_refuse_for_volume: least > trading.daily,
            may_refuse_for_volume: most > trading.daily,
            must_hold: must_refuse.or_else(|| self.must_hold(known)),
            must_accept: must_refuse.is_none()
                && most <= trading.daily
                && self.has_all_facts(known),
            must_refuse,
            value,
            slippage,
        }
    }

    pub(crate) fn slippage(&self) -> u32 {
        let ceiling = self.policy.trading.max_slippage_bps;
        self.trade.max_slippage_bps.unwrap_or(DEFAULT_SLIPPAGE.min(ceiling))
    }

    /// Returns whether the value is exact: the sold token counts as dollars, so no price is needed.
    fn has_exact_value(&self) -> bool {
        let dollar = |ex: &ExchangeFact| ex.dollars.iter().any(|(d, _)| *d == self.trade.token_in);
        self.exchange.is_some_and(dollar)
    }

    fn time(&self) -> ChainTime {
        ChainTime { chain: self.trade.chain, now: self.now, newest_s: self.newest_s }
    }

    /// Returns whether the wallet surely knows the value.
    fn value_is_sure(&self, ex: &ExchangeFact) -> bool {
        self.has_exact_value() || self.market.price_is_sure(self.time(), ex)
    }

    fn known_value(&self) -> crate::market::Value {
        let ex = self.exchange.ok_or("there is no exchange")?;
        let (token, amount) = (&self.trade.token_in, self.trade.amount_in);
        self.market.value(self.time(), ex, token, amount)
    }

    /// Returns whether a time has passed on the chain, and by every block at which the wallet may have quoted the
    /// trade.
    fn has_passed(&self, at_s: u64, ex: &ExchangeFact) -> bool {
        let (chain, from) = (self.trade.chain, self.from);
        let mut quotes = self.market.quotes_of(self.trade, ex, from);
        let in_time =
            |(seq, _): (u64, &Quoted)| self.market.is_in_time((chain, None), (from, seq), at_s);
        at_s < self.newest_s && !quotes.any(in_time)
    }

    /// Returns the reason why the wallet must refuse the trade.
    fn must_refuse(&self, known: crate::market::Value) -> Option<&'static str> {
        let (trade, trading) = (self.trade, &self.policy.trading);
        let Some(ex) = self.exchange else { return Some("the network has no exchange") };
        let off = !self.config.networks.get(&trade.chain).is_some_and(|n| n.is_enabled);
        let elsewhere = self.policy.networks.as_ref().is_some_and(|n| !n.contains(&trade.chain));
        let late = trade.deadline_s.is_some_and(|at| self.has_passed(at, ex));
        if !trading.enabled {
            Some("trading is disabled")
        } else if off || elsewhere {
            Some("the network is off or not allowed")
        } else if late {
            Some("the deadline has passed by the chain's time")
        } else if !is_wrap(trade, &ex.wrapped)
            && trade.max_slippage_bps.is_some_and(|s| s > trading.max_slippage_bps)
        {
            Some("the slippage is above the ceiling")
        } else if known.is_ok_and(|(least, _)| least > trading.per_trade) && self.value_is_sure(ex)
        {
            Some("the value is above the maximum of one trade")
        } else if trade.amount_in == 0 || trade.token_in == trade.token_out {
            Some("there is nothing to trade")
        } else if self.is_underfunded() {
            Some("the balance does not cover the amount, the cost and the least native balance")
        } else if !is_wrap(trade, &ex.wrapped) && self.usable_quotes(ex).next().is_none() {
            Some(UNQUOTED)
        } else {
            None
        }
    }

    /// Returns whether the payer's balances are too small by every reading for this trade.
    fn is_underfunded(&self) -> bool {
        let (trade, min) = (self.trade, self.policy.trading.min_native);
        let cost = self.market.gas_cost(trade.chain, self.from).map_or(0, |(least, _)| least);
        let poor = |payer: &Address| {
            let read = |token: &str| self.market.balance(trade.chain, payer, token, self.from);
            let native = trade.token_in == NATIVE;
            let paid = if native { trade.amount_in } else { 0 };
            let least = min.saturating_add(paid).saturating_add(cost);
            let gas = matches!(read(NATIVE), Some((_, most)) if most < least);
            let token = matches!(read(&trade.token_in), Some((_, most)) if most < trade.amount_in);
            gas || (!native && token)
        };
        !self.payers.is_empty() && self.payers.iter().all(poor)
    }

    /// Returns the quotes of this trade that promise an output.
    fn usable_quotes<'a>(&'a self, ex: &'a ExchangeFact) -> impl Iterator<Item = &'a Quoted> {
        let all = self.market.quotes_of(self.trade, ex, self.from);
        all.map(|(_, q)| q).filter(|q| q.amount_out.is_some_and(|out| out > 0))
    }

    /// Returns the reason why the operator must approve the trade.
    fn must_hold(&self, known: crate::market::Value) -> Option<&'static str> {
        let (trade, trading) = (self.trade, &self.policy.trading);
        let ex = self.exchange?;
        if self.doubted {
            return Some("the journal is not trusted");
        }
        let value = match known {
            Ok((least, _)) => least,
            Err(why) => return Some(why),
        };
        if value >= trading.auto_below {
            return Some("the value is not below the automatic limit");
        }
        if self.unattended_left.is_some_and(|left| value > left) {
            return Some("the unattended day is used up");
        }
        if ![&trade.token_in, &trade.token_out].iter().all(|token| self.is_known_token(token, ex)) {
            return Some("a token is neither known nor listed");
        }
        if is_wrap(trade, &ex.wrapped) {
            return None;
        }
        let quotes: Vec<&Quoted> = self.usable_quotes(ex).collect();
        let reasons: Vec<Option<&'static str>> =
            quotes.iter().map(|q| self.bad_quote_reason(q, ex)).collect();
        if let Some(Some(why)) = reasons.iter().find(|why| why.is_some())
            && reasons.iter().all(Option::is_some)
        {
            return Some(why);
        }
        let proved = self.market.is_proved(trade, self.payers, &ex.wrapped, self.from);
        (!proved).then_some("no rehearsal proved the effects")
    }

    fn is_known_token(&self, token: &str, ex: &ExchangeFact) -> bool {
        token == NATIVE
            || token == ex.wrapped
            || ex.dollars.iter().any(|(dollar, _)| dollar == token)
            || self.policy.trading.tokens.iter().any(|t| t.eq_ignore_ascii_case(token))
    }

    /// Returns the reason why a trade at this quote needs the operator.
    fn bad_quote_reason(&self, q: &Quoted, ex: &ExchangeFact) -> Option<&'static str> {
        let out = q.amount_out.unwrap_or(0);
        let unlisted = q.hops.iter().any(|hop| match &hop.pool {
            Pool::V3 { .. } => false,
            Pool::V4 { fee, hooks, .. } => {
                let listed =
                    self.policy.trading.hooks.iter().any(|h| h.eq_ignore_ascii_case(hooks));
                (hooks != NATIVE || *fee == DYNAMIC_FEE) && !listed
            }
        });
        if unlisted {
            return Some("a hook or a dynamic fee is in the pool");
        }
        let max = u128::from(self.policy.trading.max_impact_bps);
        if q.slot0_ideal.is_none() && (q.dust_ideal.is_none() || q.fee_ppm.is_none()) {
            return Some("the impact is unknown");
        }
        if q.slot0_ideal.is_some_and(|ideal| out > ideal) {
            return Some("the quote is above the pool's own price");
        }
        if q.slot0_ideal
            .is_some_and(|ideal| !reaches(out, ideal, 10_000u128.saturating_sub(max), 10_000))
        {
            return Some("the impact by slot0 is above the ceiling");
        }
        if let (Some(ideal), Some(fee)) = (q.dust_ideal, q.fee_ppm) {
            let part = 1_000_000u128.saturating_add(u128::from(fee));
            let least = part.saturating_sub(max.saturating_mul(100));
            // If the quote is better than the rate of the dust quote, its impact is zero.
            let worse = out.saturating_add(1).min(ideal);
            if !reaches(worse, ideal, least, 1_000_000) {
                return Some("the impact by the dust quote is above the ceiling");
            }
        }
        self.is_unfair(out, ex).then_some("the output is worth less than the impact ceiling allows")
    }

    /// Returns whether both tokens have a price outside the pools, and the output is worth too little by these prices.
    fn is_unfair(&self, out: u128, ex: &ExchangeFact) -> bool {
        let trade = self.trade;
        let value = |token: &str, amount| self.market.value(self.time(), ex, token, amount);
        let max = u128::from(self.policy.trading.max_impact_bps);
        match (value(&trade.token_in, trade.amount_in), value(&trade.token_out, out)) {
            (Ok((paid, _)), Ok((_, received))) => {
                let least = 10_000u128.saturating_sub(max);
                !reaches(u128::from(received), u128::from(paid), least, 10_000)
            }
            _ => false,
        }
    }

    /// Returns whether the wallet read every fact that could be a reason to refuse, and all of them are good.
    fn has_all_facts(&self, known: crate::market::Value) -> bool {
        let (trade, trading) = (self.trade, &self.policy.trading);
        let Some(ex) = self.exchange else { return false };
        let Some(payer) = self.payers.iter().next() else { return false };
        let read = |token: &str| self.market.balance(trade.chain, payer, token, self.from);
        let paid = if trade.token_in == NATIVE { trade.amount_in } else { 0 };
        let Some((_, cost)) = self.market.gas_cost(trade.chain, self.from) else { return false };
        // A plan has at most three transactions, and each costs at most eight times as much as the cheapest.
        let least = trading.min_native.saturating_add(paid).saturating_add(cost.saturating_mul(24));
        let rich = matches!(read(NATIVE), Some((there, _)) if there >= least)
            && matches!(read(&trade.token_in), Some((there, _)) if there >= trade.amount_in);
        // The wallet may also refuse a deadline that has passed by the machine's clock.
        let wall_s = u64::try_from(self.now.second()).unwrap_or(0);
        let later = self.market.newest_time_s(trade.chain).unwrap_or(u64::MAX).max(wall_s);
        let in_time = trade.deadline_s.is_none_or(|at| at > later.saturating_add(ex.deadline_s));
        let mut quotes = self.market.quotes_of(trade, ex, self.from).peekable();
        let quoted =
            quotes.peek().is_some() && quotes.all(|(_, q)| q.amount_out.is_some_and(|out| out > 0));
        // A trade that no node can rehearse waits for the operator.
        let rehearsed = self.market.is_proved(trade, self.payers, &ex.wrapped, self.from)
            || self.market.is_unrehearsed(trade, self.payers, &ex.wrapped, self.from);
        let failed = self.market.failed_read(trade.chain, self.from);
        self.payers.len() == 1
            && !self.crowded
            && known.is_ok_and(|(_, most)| most <= trading.per_trade)
            && rich
            && in_time
            && quoted
            && rehearsed
            && !failed
            && self.usable_quotes(ex).all(|q| q.hops.iter().all(|hop| !is_v4(&hop.pool)))
    }
}

/// Returns whether a ≥ b × part / whole.
fn reaches(a: u128, b: u128, part: u128, whole: u128) -> bool {
    Wide::product(a, whole) >= Wide::product(b, part)
}
