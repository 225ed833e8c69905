//! The least output of a swap, from the quotes that the wallet saw.

use super::TradeRecord;
use crate::market::{is_v4, same_token};
use crate::trading::{Hop, Quoted};
use crate::{Auditor, Violation, wide};
use std::collections::BTreeMap;

const WHOLE_BPS: u128 = 10_000;

/// Returns the output of a quote if it is not better than the pool's own price.
fn credible_output(q: &Quoted) -> Option<u128> {
    q.amount_out.filter(|out| q.slot0_ideal.is_none_or(|ideal| *out <= ideal))
}

/// Returns the best credible output of each block, oldest block first.
///
/// The wallet takes the best pool of one block. If its reads straddle two blocks, the best output of either may count.
fn best_by_block(quotes: &[&Quoted]) -> BTreeMap<u64, u128> {
    let mut best = BTreeMap::new();
    for q in quotes {
        if let Some(out) = credible_output(q) {
            let known = best.entry(q.block).or_insert(0u128);
            *known = out.max(*known);
        }
    }
    best
}

/// Returns whether two routes are the same.
fn same_route(a: &[Hop], b: &[Hop], wrapped: &str) -> bool {
    let same = |(a, b): (&Hop, &Hop)| {
        a.pool == b.pool && same_token(&a.token_out, &b.token_out, is_v4(&a.pool), wrapped)
    };
    a.len() == b.len() && a.iter().zip(b).all(same)
}

fn least_floor(out: u128, slippage: (u32, u32)) -> u128 {
    wide::floor(out, WHOLE_BPS.saturating_sub(u128::from(slippage.1)), WHOLE_BPS)
}

fn most_floor(out: u128, slippage: (u32, u32)) -> u128 {
    wide::ceil(out, WHOLE_BPS.saturating_sub(u128::from(slippage.0)), WHOLE_BPS)
}

impl Auditor {
    fn quotes_between<'a>(
        &'a self,
        rec: &'a TradeRecord,
        from: u64,
        until: u64,
    ) -> Vec<&'a Quoted> {
        let Some(ex) = self.trades.exchanges.get(&rec.terms.chain) else { return Vec::new() };
        let all = self.trades.market.quotes_of(&rec.terms, ex, from);
        all.filter(|(seq, _)| *seq <= until).map(|(_, q)| q).collect()
    }

    /// Returns the minimum output that the wallet committed to when it accepted the trade: (least, most).
    ///
    /// Among several routes the wallet may prefer one for its gas, so the route with the least output may count.
    pub(crate) fn committed_floor(&self, rec: &TradeRecord) -> Option<(u128, u128)> {
        let slippage = rec.extra.slippage?;
        let quotes = self.quotes_between(rec, rec.from, rec.until.unwrap_or(self.seq));
        let outs = quotes.iter().filter_map(|q| credible_output(q));
        let least = outs.map(|out| least_floor(out, slippage)).min()?;
        let most = quotes.iter().filter_map(|q| q.amount_out).max()?;
        Some((least, most_floor(most, slippage)))
    }

    /// Returns the highest minimum output that follows from a quote of `out`.
    pub(crate) fn floor_of(&self, rec: &TradeRecord, out: u128) -> u128 {
        most_floor(out, rec.extra.slippage.unwrap_or((0, 0)))
    }

    /// Returns the highest output that a node quoted since the observation `from`.
    pub(crate) fn best_since(&self, rec: &TradeRecord, from: u64) -> Option<u128> {
        let quotes = self.quotes_between(rec, from, self.seq);
        quotes.iter().filter_map(|q| q.amount_out).max()
    }

    /// Returns the lowest output that a node quoted since the observation `from`; a failed quote counts as zero.
    pub(crate) fn worst_since(&self, rec: &TradeRecord, from: u64) -> Option<u128> {
        let quotes = self.quotes_between(rec, from, self.seq);
        quotes.iter().map(|q| q.amount_out.unwrap_or(0)).min()
    }

    /// Checks the minimum output in a swap's call data: the higher of the committed minimum and that of the newest
    /// quotes.
    ///
    /// Quotes since the observation `since` count as new. Among these, only the quotes of the route `hops` count.
    pub(crate) fn check_floor(
        &self,
        key: u64,
        minimum: u128,
        since: u64,
        hops: &[Hop],
    ) -> Result<(), Violation> {
        let Some(rec) = self.trades.book.records.get(&key) else { return Ok(()) };
        let slippage = rec.extra.slippage.unwrap_or((0, 10_000));
        // If several trades have the same terms, it is unknown for which of them a quote was read.
        let alike =
            self.trades.book.records.values().filter(|r| r.terms == rec.terms && r.may_live());
        let alike: Vec<u64> = alike.map(|r| r.from).collect();
        let first = alike.iter().copied().min().unwrap_or(rec.from).min(rec.from);
        let all = self.quotes_between(rec, first, self.seq);
        let Some(best) = all.iter().filter_map(|q| q.amount_out).max() else {
            return Err(self.trade_violation(key, "floor", "a swap was signed without a quote"));
        };
        let wrapped = self.trades.exchanges.get(&rec.terms.chain).map(|ex| ex.wrapped.clone());
        let wrapped = wrapped.unwrap_or_default();
        let of_route = |from: u64, until: u64| {
            let mut quotes = self.quotes_between(rec, from, until);
            quotes.retain(|q| same_route(&q.hops, hops, &wrapped));
            best_by_block(&quotes)
        };
        let committed = of_route(rec.from, rec.until.unwrap_or(self.seq));
        let committed = committed.values().map(|out| least_floor(*out, slippage)).min();
        let any = self.committed_floor(rec).map_or(0, |(least, _)| least);
        let committed = committed.unwrap_or(any);
        let fresh = of_route(since, self.seq);
        // For an open repeat, the wallet reads quotes before it merges the call or makes it a separate trade.
        let is_repeated = rec.accepted && !rec.open.is_empty();
        let newest = if alike.len() > 1 || is_repeated {
            fresh.values().min().copied()
        } else {
            fresh.last_key_value().map(|(_, out)| *out)
        };
        let newest = newest.map_or(0, |out| least_floor(out, slippage));
        if minimum < committed.max(newest) {
            let what = format!(
                "a swap was signed with the minimum {minimum}; the quote at the request gives {committed}, the newest gives {newest}"
            );
            return Err(self.trade_violation(key, "floor", &what));
        }
        let most = most_floor(best, slippage);
        if minimum > most {
            let what = format!(
                "a swap was signed with the minimum {minimum}; the best quote, {best}, gives {most}"
            );
            return Err(self.trade_violation(key, "floor", &what));
        }
        Ok(())
    }
}
