//! The use of the daily volume by trades.

use super::{TradeRecord, Trades};
use crate::clocks::{AllowancePeriod, Instant};
use crate::plans::PlanState;
use crate::plans::slots::Kind;
use crate::trading::{PriceRead, TradeState};
use crate::wide;

/// One native coin in its smallest units.
const WEI_PER_COIN: u128 = 1_000_000_000_000_000_000;

/// A fee counts as this much if the price of the coin was unknown, in micro-dollars.
const FEE_WITHOUT_PRICE: u64 = 1_000_000;

/// A daily volume that may be in force. The observation of its renewal lies between `period.since` and `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) period: AllowancePeriod,
    pub(crate) latest: u64,
}

impl Allowance {
    pub(crate) fn new(period: AllowancePeriod) -> Self {
        let latest = period.since_event;
        Self { period, latest }
    }

    /// Adds a daily volume, or merges it with one that differs only in the instant of its renewal.
    pub(crate) fn add(all: &mut Vec<Self>, one: Self) {
        for known in all.iter_mut() {
            if known.period.merge_if_close(&one.period, 0) {
                known.latest = known.latest.max(one.latest);
                return;
            }
        }
        all.push(one);
    }
}

impl TradeRecord {
    pub(crate) fn include_value(&mut self, value: (u64, u64)) {
        let (least, most) = self.extra.value.unwrap_or(value);
        self.extra.value = Some((least.min(value.0), most.max(value.1)));
    }

    pub(crate) fn include_slippage(&mut self, bps: u32) {
        let (least, most) = self.extra.slippage.unwrap_or((bps, bps));
        self.extra.slippage = Some((least.min(bps), most.max(bps)));
    }
}

impl Trades {
    /// Notes a reading of the native coin's price.
    pub(crate) fn price_read(&mut self, seq: u64, now: Instant, price: &PriceRead) {
        self.market.add_price(seq, now, price);
        let (PriceRead::Api { micros } | PriceRead::Feed { micros, .. }) = *price;
        if let Some(micros) = micros {
            let (least, most) = self.prices.unwrap_or((micros, micros));
            self.prices = Some((least.min(micros), most.max(micros)));
        }
    }

    /// Returns the cost of an executed trade's transactions in micro-dollars: (least, most).
    ///
    /// Without a price of the coin, the fee counts as one dollar.
    fn fee(&self, key: u64) -> (u64, u64) {
        let steps = self.book.slots.of_record(key).filter(|(_, slot)| slot.kind != Kind::Revoke);
        let paid = steps.filter_map(|(_, slot)| slot.included.as_ref());
        let paid = paid.fold(0u128, |sum, one| sum.saturating_add(one.gas_paid));
        let (low, high) = self.prices.unwrap_or((0, 0));
        let micros = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        let least = micros(wide::floor(paid, u128::from(low), WEI_PER_COIN));
        let most = micros(wide::ceil(paid, u128::from(high), WEI_PER_COIN));
        // Without a receipt, the wallet counts the most that a plan may cost.
        (least.min(FEE_WITHOUT_PRICE), most.saturating_mul(24).max(FEE_WITHOUT_PRICE))
    }

    /// Returns whether a plan surely paid for gas and ended without its swap.
    pub(crate) fn surely_failed(&self, key: u64, rec: &TradeRecord) -> bool {
        let failed = rec.end.as_ref().is_some_and(TradeState::is_without_effect);
        let mut steps =
            self.book.slots.of_record(key).filter(|(_, slot)| slot.kind != Kind::Revoke);
        let swapped = self.book.main_of(key).is_some_and(|(_, slot)| slot.succeeded());
        failed && !rec.may_lose_end && !swapped && steps.any(|(_, slot)| !slot.is_unsent())
    }

    /// Returns what a trade takes from this daily volume, in micro-dollars: (least, most).
    fn volume_taken(&self, key: u64, p: &Allowance, now: &Instant) -> (u64, u64) {
        let Some(rec) = self.book.records.get(&key) else { return (0, 0) };
        let Some((least, most)) = rec.extra.value else { return (0, 0) };
        let swap = self.book.main_of(key);
        let signed = swap.map(|(_, slot)| slot.signed_at);
        let unswapped = swap.is_none_or(|(_, slot)| slot.is_value_returned());
        let hard = !rec.may_lose_end;
        match &rec.end {
            _ if rec.refused.is_some() => return (0, 0),
            Some(TradeState::Rejected { .. }) if hard && unswapped => return (0, 0),
            Some(TradeState::Failed { .. }) if hard && unswapped => return (0, 0),
            Some(end) if hard => {
                let (fee_least, fee_most) = match end {
                    TradeState::Executed { .. } => self.fee(key),
                    _ => (0, 0),
                };
                let (least, most) =
                    (least.saturating_add(fee_least), most.saturating_add(fee_most));
                // The value was spent between the signature and the reported end.
                let ended = rec.history.iter().find(|(_, phase)| *phase == 2);
                let ended = ended.map_or(u64::MAX, |(seq, _)| *seq);
                let sure = signed.is_some_and(|seq| seq > p.latest);
                let may = ended > p.period.since_event;
                return (if sure { least } else { 0 }, if may { most } else { 0 });
            }
            _ => {}
        }
        // The volume that a lost call reserved is free again after a restart, or at the latest when the call expires.
        let forgotten = !rec.accepted && rec.open.is_empty() && rec.expired(now).0;
        if rec.is_denied() || (forgotten && swap.is_none()) {
            return (0, 0);
        }
        let broadcast = swap.filter(|(_, slot)| !slot.hashes.is_empty() && !slot.may_return());
        let reserved =
            broadcast.is_some_and(|(_, slot)| slot.included.is_none() && !slot.is_nonce_taken);
        let recent = broadcast.is_some() && signed.is_some_and(|seq| seq > p.latest);
        let sure = rec.is_surely_held(now) || reserved || recent;
        // The trade's end may be recorded but not reported yet.
        let fee = if broadcast.is_some() { self.fee(key).1 } else { 0 };
        (if sure { least } else { 0 }, most.saturating_add(fee))
    }

    /// Returns what the agent's other trades take from the daily volume, in micro-dollars: (least, most).
    pub(crate) fn volume_of_others(
        &self,
        agent: &str,
        except: u64,
        periods: &[Allowance],
        now: &Instant,
    ) -> (u64, u64) {
        let mine =
            || self.book.records.iter().filter(|(key, r)| r.agent == agent && **key != except);
        let sum = |p: &Allowance| {
            mine().fold((0u64, 0u64), |sum, (key, _)| {
                let (least, most) = self.volume_taken(*key, p, now);
                (sum.0.saturating_add(least), sum.1.saturating_add(most))
            })
        };
        let sums: Vec<(u64, u64)> = periods.iter().map(sum).collect();
        let least = sums.iter().map(|(least, _)| *least).min().unwrap_or(0);
        (least, sums.iter().map(|(_, most)| *most).max().unwrap_or(u64::MAX))
    }
}
