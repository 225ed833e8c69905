//! The trades, what they may still become, and what they take of the daily volume.

use crate::basics::{Address, Id, Ticket};
use crate::clocks::{AllowancePeriod, HOLD_MS, Instant};
use crate::config::Config;
use crate::trade_slots::{Kind, Slot, SlotKey, Slots};
use crate::trading::{OpenAllowance, Trade, TradeState};
use crate::wide;
use std::collections::{BTreeMap, BTreeSet};

/// The smallest units of a native coin.
const COIN: u128 = 1_000_000_000_000_000_000;

/// What a fee counts if the price of the coin was not known, in micro-dollars.
const FEE_WITHOUT_PRICE: u64 = 1_000_000;

/// What makes two calls the same trade.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TradeIdentity {
    Hmac {
        agent: String,
        signature: String,
    },
    Keyed {
        agent: String,
        key: String,
        content: String,
    },
    /// A bearer agent's call without a key.
    Content {
        agent: String,
        content: String,
    },
}

/// One state in which a trade may have been judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) config: Config,
    pub(crate) now: Instant,
    /// What other trades took of the daily volume: (least, most).
    pub(crate) used: (u64, u64),
    /// Whether the number of held requests may refuse it.
    pub(crate) crowded: bool,
    /// Whether the wallet doubts its journal.
    pub(crate) doubted: bool,
    /// What may at most be left of the unattended day, if that is limited.
    pub(crate) unattended_left: Option<u64>,
    /// The newest block time that the wallet knew, in Unix seconds.
    pub(crate) newest_s: u64,
}

/// An allowance that may be in force. The observation of its renewal lies between `period.since` and `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowance {
    pub(crate) period: AllowancePeriod,
    pub(crate) latest: u64,
}

impl Allowance {
    pub(crate) fn new(period: AllowancePeriod) -> Self {
        let latest = period.since;
        Self { period, latest }
    }

    /// Adds an allowance, merged with one that differs only in the instant of its renewal.
    pub(crate) fn add(all: &mut Vec<Self>, one: Self) {
        for known in all.iter_mut() {
            if known.period.absorb(&one.period, 0) {
                known.latest = known.latest.max(one.latest);
                return;
            }
        }
        all.push(one);
    }
}

/// An order to approve, or the call of a trade that is executed without one.
#[derive(Debug, Clone)]
pub(crate) struct Authorization {
    pub(crate) ticket: Ticket,
    pub(crate) by_call: bool,
    /// The observation and the instant at which the order or call arrived.
    pub(crate) seq: u64,
    pub(crate) opened: Instant,
    /// The instant at which it had surely been decided.
    pub(crate) closed: Option<Instant>,
    /// Whether a freeze, lock, suspension or denial has ended everything unsigned since.
    pub(crate) killed: bool,
    /// The instant at which the process died before its answer.
    pub(crate) lost: Option<Instant>,
    /// States in which an approval may have applied the policy again.
    pub(crate) snapshots: Vec<Snapshot>,
}

impl Authorization {
    pub(crate) fn by_order(ticket: Ticket, seq: u64, opened: Instant) -> Self {
        let (by_call, killed, lost, snapshots) = (false, false, None, Vec::new());
        Self { ticket, by_call, seq, opened, closed: None, killed, lost, snapshots }
    }
}

/// How far an order to deny got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    Open,
    Lost,
    Done,
}

/// A trade, or one that may exist.
#[derive(Debug, Clone)]
pub(crate) struct TradeRecord {
    pub(crate) id: Option<Id>,
    pub(crate) agent: String,
    pub(crate) identity: TradeIdentity,
    pub(crate) trade: Trade,
    /// The observation of the first call, and of its answer.
    pub(crate) from: u64,
    pub(crate) until: Option<u64>,
    /// Calls without an answer yet.
    pub(crate) open: BTreeSet<Ticket>,
    /// Whether a call got no answer because the process died.
    pub(crate) lost: bool,
    pub(crate) accepted: bool,
    /// The refusal of the call.
    pub(crate) refused: Option<TradeState>,
    /// The refusal had no id, so the wallet did not record it.
    pub(crate) unrecorded: bool,
    /// Instants at which it may have been accepted.
    pub(crate) moments: Vec<Instant>,
    pub(crate) may_have_expired: bool,
    /// Whether the trade may have been executed without an approval, and why surely not.
    pub(crate) automatic: bool,
    pub(crate) not_automatic: Option<&'static str>,
    /// Addresses that may execute the trade; empty if unknown.
    pub(crate) payers: BTreeSet<Address>,
    /// (least, most) value in micro-dollars, and slippage in basis points.
    pub(crate) value: Option<(u64, u64)>,
    pub(crate) slippage: Option<(u32, u32)>,
    /// Phases that answers have shown: 0 pending, 1 executing, 2 ended.
    pub(crate) history: Vec<(u64, u8)>,
    pub(crate) end: Option<TradeState>,
    pub(crate) ended: Option<Instant>,
    /// The end was returned while the disk failed, so it may be lost.
    pub(crate) soft_end: bool,
    pub(crate) authorizations: Vec<Authorization>,
    pub(crate) denials: Vec<(Ticket, Denial)>,
    /// An approval was refused for a reason that may have closed the trade.
    pub(crate) maybe_closed: bool,
    /// The id of a later request of the same content shows that its plan was rejected before any broadcast. A slow signer
    /// may still answer for it, but nothing is done with that signature.
    pub(crate) rejected: bool,
    /// Freezes, locks and suspensions since the first authorization.
    pub(crate) disturbed: bool,
    /// Allowances before the first step.
    pub(crate) baseline: Option<Vec<OpenAllowance>>,
    /// Since when, in the calm phase, a poll has shown it unfinished.
    pub(crate) last_poll: Option<Instant>,
    pub(crate) cards: Vec<(Ticket, u64, String)>,
    /// The UTC day of the first call, if no clock was ever further: then the wallet's records are of that day too.
    pub(crate) day: Option<i64>,
}

impl TradeIdentity {
    /// Returns whether it is a bearer agent's, so that a later call may be a new trade.
    pub(crate) fn is_of_bearer(&self) -> bool {
        matches!(self, Self::Keyed { .. } | Self::Content { .. })
    }

    pub(crate) fn is_content(&self) -> bool {
        matches!(self, Self::Content { .. })
    }
}

impl TradeRecord {
    pub(crate) fn new(agent: String, identity: TradeIdentity, trade: Trade, from: u64) -> Self {
        Self {
            id: None,
            agent,
            identity,
            trade,
            from,
            until: None,
            open: BTreeSet::new(),
            lost: false,
            accepted: false,
            refused: None,
            unrecorded: false,
            moments: Vec::new(),
            may_have_expired: false,
            automatic: false,
            not_automatic: None,
            payers: BTreeSet::new(),
            value: None,
            slippage: None,
            history: Vec::new(),
            end: None,
            ended: None,
            soft_end: false,
            authorizations: Vec::new(),
            denials: Vec::new(),
            maybe_closed: false,
            rejected: false,
            disturbed: false,
            baseline: None,
            last_poll: None,
            cards: Vec::new(),
            day: None,
        }
    }

    /// Returns whether it may exist and not have ended.
    pub(crate) fn may_live(&self) -> bool {
        let exists = self.accepted || self.lost || !self.open.is_empty();
        exists && self.refused.is_none() && (self.end.is_none() || self.soft_end)
    }

    /// Returns whether a held trade has expired: (surely, possibly).
    pub(crate) fn expired(&self, now: &Instant) -> (bool, bool) {
        let all = self.moments.iter().all(|at| at.has_elapsed(now, HOLD_MS));
        let any = self.moments.iter().any(|at| at.has_elapsed(now, HOLD_MS));
        (all && !self.moments.is_empty(), any || self.may_have_expired)
    }

    /// Returns whether it may have ended without a swap.
    pub(crate) fn may_have_failed(&self) -> bool {
        let failed =
            matches!(self.end, Some(TradeState::Rejected { .. } | TradeState::Failed { .. }));
        let killed = self.authorizations.iter().any(|auth| auth.killed);
        failed || killed || self.maybe_closed || self.denied() || self.may_have_expired
    }

    /// Returns whether its plan may have begun, and no answer shows an end.
    pub(crate) fn began(&self) -> bool {
        let executing = self.history.iter().any(|(_, phase)| *phase == 1);
        self.accepted && self.end.is_none() && (executing || !self.authorizations.is_empty())
    }

    pub(crate) fn denied(&self) -> bool {
        self.denials.iter().any(|(_, denial)| *denial == Denial::Done)
    }

    /// Returns whether it surely waits for the operator.
    pub(crate) fn surely_held(&self, now: &Instant) -> bool {
        let pending = self.history.last().is_some_and(|(_, phase)| *phase == 0);
        self.accepted
            && pending
            && self.authorizations.is_empty()
            && self.denials.is_empty()
            && !self.maybe_closed
            && !self.expired(now).1
            && self.end.is_none()
    }

    /// Returns whether it may wait for the operator.
    pub(crate) fn may_be_held(&self, now: &Instant) -> bool {
        let phase = self.history.iter().map(|(_, phase)| *phase).max().unwrap_or(0);
        self.may_live() && phase == 0 && !self.denied() && !self.expired(now).0
    }

    /// Returns the highest phase that an answer showed at or before this observation.
    pub(crate) fn phase_at(&self, seq: u64) -> u8 {
        let shown = self.history.iter().filter(|(at, _)| *at <= seq);
        shown.map(|(_, phase)| *phase).max().unwrap_or(0)
    }

    pub(crate) fn include_value(&mut self, value: (u64, u64)) {
        let (least, most) = self.value.unwrap_or(value);
        self.value = Some((least.min(value.0), most.max(value.1)));
    }

    pub(crate) fn include_slippage(&mut self, bps: u32) {
        let (least, most) = self.slippage.unwrap_or((bps, bps));
        self.slippage = Some((least.min(bps), most.max(bps)));
    }

    pub(crate) fn kill(&mut self) {
        self.authorizations.iter_mut().for_each(|auth| auth.killed = true);
    }

    /// Notes that its plan was rejected before any broadcast. What a freeze, lock or suspension had ended stays forbidden.
    pub(crate) fn reject(&mut self) {
        self.rejected |= self.authorizations.iter().any(|a| !a.killed || a.lost.is_some());
        self.kill();
    }
}

/// All trades.
#[derive(Debug, Default)]
pub(crate) struct TradeBook {
    pub(crate) recs: BTreeMap<u64, TradeRecord>,
    next: u64,
    pub(crate) by_id: BTreeMap<Id, u64>,
    pub(crate) by_identity: BTreeMap<TradeIdentity, u64>,
    /// Ids of which it is unknown which lost call they belong to.
    pub(crate) loose_ids: BTreeSet<Id>,
    pub(crate) slots: Slots,
    /// The allowances of each agent's trades that may be in force.
    pub(crate) periods: BTreeMap<String, Vec<Allowance>>,
    /// The newest allowances of each address.
    pub(crate) allowances: BTreeMap<(u64, Address), Vec<OpenAllowance>>,
    /// The lowest and the highest price of the native coin that a source reported, in micro-dollars.
    pub(crate) prices: Option<(u64, u64)>,
}

impl TradeBook {
    pub(crate) fn add(&mut self, rec: TradeRecord) -> u64 {
        let key = self.next;
        self.next = self.next.saturating_add(1);
        self.by_identity.insert(rec.identity.clone(), key);
        self.recs.insert(key, rec);
        key
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.by_id.contains_key(id) || self.loose_ids.contains(id)
    }

    pub(crate) fn find(&self, id: &str) -> Option<(u64, &TradeRecord)> {
        let key = *self.by_id.get(id)?;
        self.recs.get(&key).map(|rec| (key, rec))
    }

    pub(crate) fn bind(&mut self, key: u64, id: &str) {
        let Some(rec) = self.recs.get_mut(&key) else { return };
        rec.id = Some(id.to_owned());
        self.by_id.insert(id.to_owned(), key);
        // Calls with the same terms are alike until an answer names one of them.
        let trade = rec.trade.clone();
        let mut alike = self.recs.iter().filter(|(other, r)| {
            **other != key && r.id.is_none() && r.trade == trade && r.may_live()
        });
        if let Some((other, _)) = alike.next() {
            self.slots.give(key, *other, id);
        }
        if let Some(before) = self.slots.settle(id, key)
            && let Some(other) = self.recs.get(&before)
        {
            let (baseline, automatic) = (other.baseline.clone(), other.automatic);
            if let Some(rec) = self.recs.get_mut(&key) {
                rec.baseline = rec.baseline.take().or(baseline);
                rec.automatic |= automatic;
            }
        }
    }

    /// Returns the trade of an id, or of the signatures that were shown for it.
    pub(crate) fn named(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).copied().or_else(|| self.slots.signed_for(id))
    }

    /// Returns the slot of a trade's swap.
    pub(crate) fn swap_of(&self, key: u64) -> Option<(&SlotKey, &Slot)> {
        self.slots.of(key).find(|(_, slot)| slot.kind == Kind::Swap)
    }

    /// Notes a price of the native coin.
    pub(crate) fn priced(&mut self, micros: u64) {
        let (least, most) = self.prices.unwrap_or((micros, micros));
        self.prices = Some((least.min(micros), most.max(micros)));
    }

    /// Returns what the transactions of an executed trade cost in micro-dollars: (least, most). A fee without a price of the
    /// coin counts one dollar.
    fn fee(&self, key: u64) -> (u64, u64) {
        let steps = self.slots.of(key).filter(|(_, slot)| slot.kind != Kind::Revoke);
        let paid = steps.filter_map(|(_, slot)| slot.included.as_ref());
        let paid = paid.fold(0u128, |sum, one| sum.saturating_add(one.gas_paid));
        let (low, high) = self.prices.unwrap_or((0, 0));
        let micros = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        let least = micros(wide::floor(paid, u128::from(low), COIN));
        let most = micros(wide::ceil(paid, u128::from(high), COIN));
        // Without a receipt, the most that a plan may cost counts.
        (least.min(FEE_WITHOUT_PRICE), most.saturating_mul(24).max(FEE_WITHOUT_PRICE))
    }

    /// Returns whether a plan surely paid for gas and ended without its swap.
    pub(crate) fn surely_failed(&self, key: u64, rec: &TradeRecord) -> bool {
        let failed =
            matches!(rec.end, Some(TradeState::Rejected { .. } | TradeState::Failed { .. }));
        let mut steps = self.slots.of(key).filter(|(_, slot)| slot.kind != Kind::Revoke);
        let swapped = self.swap_of(key).is_some_and(|(_, slot)| slot.succeeded());
        failed && !rec.soft_end && !swapped && steps.any(|(_, slot)| !slot.is_unsent())
    }

    /// Returns what a trade takes of this allowance: (least, most).
    fn takes(&self, key: u64, p: &Allowance, now: &Instant) -> (u64, u64) {
        let Some(rec) = self.recs.get(&key) else { return (0, 0) };
        let Some((least, most)) = rec.value else { return (0, 0) };
        let swap = self.swap_of(key);
        let signed = swap.map(|(_, slot)| slot.signed);
        let unswapped = swap.is_none_or(|(_, slot)| slot.returned());
        let hard = !rec.soft_end;
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
                // Spent between the signature and the report.
                let ended = rec.history.iter().find(|(_, phase)| *phase == 2);
                let ended = ended.map_or(u64::MAX, |(seq, _)| *seq);
                let sure = signed.is_some_and(|seq| seq > p.latest);
                let may = ended > p.period.since;
                return (if sure { least } else { 0 }, if may { most } else { 0 });
            }
            _ => {}
        }
        // What a lost call reserved returns at the latest when it expires, or by the restart.
        let forgotten = !rec.accepted && rec.open.is_empty() && rec.expired(now).0;
        if rec.denied() || (forgotten && swap.is_none()) {
            return (0, 0);
        }
        let broadcast = swap.filter(|(_, slot)| !slot.hashes.is_empty() && !slot.may_return());
        let reserved = broadcast.is_some_and(|(_, slot)| slot.included.is_none() && !slot.taken);
        let recent = broadcast.is_some() && signed.is_some_and(|seq| seq > p.latest);
        let sure = rec.surely_held(now) || reserved || recent;
        // The trade's end may be recorded but not reported yet.
        let fee = if broadcast.is_some() { self.fee(key).1 } else { 0 };
        (if sure { least } else { 0 }, most.saturating_add(fee))
    }

    /// Returns what the agent's other trades take of the allowances that may be in force: (least, most).
    pub(crate) fn used(
        &self,
        agent: &str,
        except: u64,
        periods: &[Allowance],
        now: &Instant,
    ) -> (u64, u64) {
        let mine = || self.recs.iter().filter(|(key, r)| r.agent == agent && **key != except);
        let sum = |p: &Allowance| {
            mine().fold((0u64, 0u64), |sum, (key, _)| {
                let (least, most) = self.takes(*key, p, now);
                (sum.0.saturating_add(least), sum.1.saturating_add(most))
            })
        };
        let sums: Vec<(u64, u64)> = periods.iter().map(sum).collect();
        let least = sums.iter().map(|(least, _)| *least).min().unwrap_or(0);
        (least, sums.iter().map(|(_, most)| *most).max().unwrap_or(u64::MAX))
    }

    /// Returns how many trades of an agent may be held.
    pub(crate) fn may_be_held(&self, agent: Option<&str>, now: &Instant) -> usize {
        let mine = |r: &&TradeRecord| agent.is_none_or(|agent| r.agent == agent);
        self.recs.values().filter(mine).filter(|r| r.may_be_held(now)).count()
    }

    /// Returns whether trades of this agent may not have ended, or may have an open transaction after their end.
    pub(crate) fn may_live(&self, agent: &str) -> bool {
        let mut mine = self.recs.iter().filter(|(_, r)| r.agent == agent);
        let open =
            |key: u64, r: &TradeRecord| r.may_have_failed() && self.slots.may_be_open_after(key);
        mine.any(|(key, r)| r.may_live() || open(*key, r))
    }

    /// Returns whether a trade may be executed from this address.
    pub(crate) fn may_use(&self, from: &str) -> bool {
        let uses = |r: &TradeRecord| r.payers.is_empty() || r.payers.contains(from);
        self.recs.values().any(|r| uses(r) && r.may_live()) || self.slots.in_flight(from)
    }

    /// Marks a call or order as executed or not: it is unknown which.
    pub(crate) fn lost(&mut self, ticket: Ticket, now: Instant) {
        for rec in self.recs.values_mut() {
            if rec.open.remove(&ticket) {
                rec.lost = true;
            }
            for auth in rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket) {
                // The order may not have been executed; if it was, a plan that had begun continues.
                (auth.killed, auth.lost) = (true, Some(now));
            }
            for (of, denial) in &mut rec.denials {
                if *of == ticket && *denial == Denial::Open {
                    *denial = Denial::Lost;
                }
            }
        }
    }

    pub(crate) fn process_ended(&mut self) {
        for rec in self.recs.values_mut() {
            if rec.soft_end {
                (rec.end, rec.soft_end) = (None, false);
                rec.history.retain(|(_, phase)| *phase < 2);
            }
        }
        self.slots.process_ended();
    }
}
