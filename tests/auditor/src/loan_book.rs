//! The loans, what they may still become, and what they reserve.

use crate::basics::{Address, Id, Ticket};
use crate::clocks::{HOLD_MS, Instant};
use crate::lending::{Loan, LoanAction, LoanAmount, LoanState};
use crate::trade_book::{Authorization, Denial};
use crate::trade_slots::{Kind, Slot, SlotKey, Slots};
use crate::trading::OpenAllowance;
use std::collections::{BTreeMap, BTreeSet};

/// What makes two calls the same loan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LoanIdentity {
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
    /// An operator's withdrawal is never merged with another.
    Single(Ticket),
}

/// A loan, or one that may exist.
#[derive(Debug, Clone)]
pub(crate) struct LoanRecord {
    pub(crate) id: Option<Id>,
    /// Empty for an operator's withdrawal.
    pub(crate) agent: String,
    pub(crate) identity: LoanIdentity,
    pub(crate) loan: Loan,
    /// The observation of the first call, and of its answer.
    pub(crate) from: u64,
    pub(crate) until: Option<u64>,
    /// Calls without an answer yet.
    pub(crate) open: BTreeSet<Ticket>,
    /// Whether a call got no answer because the process died.
    pub(crate) lost: bool,
    pub(crate) accepted: bool,
    /// The refusal of the call.
    pub(crate) refused: Option<LoanState>,
    /// The refusal had no id, so the wallet did not record it.
    pub(crate) unrecorded: bool,
    /// Instants at which it may have been accepted.
    pub(crate) moments: Vec<Instant>,
    pub(crate) may_have_expired: bool,
    /// Whether the loan may have been executed without an approval, and why surely not: rule and reason.
    pub(crate) automatic: bool,
    pub(crate) not_automatic: Option<(&'static str, &'static str)>,
    /// Addresses that may execute the loan; empty if unknown.
    pub(crate) payers: BTreeSet<Address>,
    /// Phases that answers have shown: 0 pending, 1 executing, 2 ended.
    pub(crate) history: Vec<(u64, u8)>,
    pub(crate) end: Option<LoanState>,
    pub(crate) ended: Option<Instant>,
    /// The end was returned while the disk failed, so it may be lost.
    pub(crate) soft_end: bool,
    pub(crate) authorizations: Vec<Authorization>,
    pub(crate) denials: Vec<(Ticket, Denial)>,
    /// An approval was refused for a reason that may have closed the loan.
    pub(crate) maybe_closed: bool,
    /// Allowances before the first step.
    pub(crate) baseline: Option<Vec<OpenAllowance>>,
    /// Since when, in the calm phase, a poll has shown it unfinished.
    pub(crate) last_poll: Option<Instant>,
    pub(crate) cards: Vec<(Ticket, u64, String)>,
    /// The largest ceiling in force for its agent while it lived.
    pub(crate) largest_total: u128,
    /// The chains on which that ceiling counts, in every possible configuration.
    pub(crate) counted: Option<BTreeSet<u64>>,
}

impl LoanIdentity {
    /// Returns whether it is a bearer agent's, so that a later call may be a new loan.
    pub(crate) fn is_of_bearer(&self) -> bool {
        matches!(self, Self::Keyed { .. } | Self::Content { .. })
    }

    pub(crate) fn is_content(&self) -> bool {
        matches!(self, Self::Content { .. })
    }
}

impl LoanRecord {
    pub(crate) fn new(agent: String, identity: LoanIdentity, loan: Loan, from: u64) -> Self {
        Self {
            id: None,
            agent,
            identity,
            loan,
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
            history: Vec::new(),
            end: None,
            ended: None,
            soft_end: false,
            authorizations: Vec::new(),
            denials: Vec::new(),
            maybe_closed: false,
            baseline: None,
            last_poll: None,
            cards: Vec::new(),
            largest_total: 0,
            counted: None,
        }
    }

    pub(crate) fn by_operator(&self) -> bool {
        self.agent.is_empty()
    }

    pub(crate) fn is_supply(&self) -> bool {
        self.loan.action == LoanAction::Supply
    }

    /// Returns the network and the venue.
    pub(crate) fn place(&self) -> (u64, &str) {
        (self.loan.chain, &self.loan.venue)
    }

    /// Returns the assets that a supply takes.
    pub(crate) fn supplied(&self) -> Option<u128> {
        match self.loan.amount {
            LoanAmount::Assets(assets) if self.is_supply() => Some(assets),
            _ => None,
        }
    }

    /// Returns whether it may exist and not have ended.
    pub(crate) fn may_live(&self) -> bool {
        let exists = self.accepted || self.lost || !self.open.is_empty();
        exists && self.refused.is_none() && (self.end.is_none() || self.soft_end)
    }

    /// Returns whether a held loan has expired: (surely, possibly).
    pub(crate) fn expired(&self, now: &Instant) -> (bool, bool) {
        let all = self.moments.iter().all(|at| at.has_elapsed(now, HOLD_MS));
        let any = self.moments.iter().any(|at| at.has_elapsed(now, HOLD_MS));
        (all && !self.moments.is_empty(), any || self.may_have_expired)
    }

    /// Returns whether it may have ended without effect.
    pub(crate) fn may_have_failed(&self) -> bool {
        let failed =
            matches!(self.end, Some(LoanState::Rejected { .. } | LoanState::Failed { .. }));
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
        let operator = self.by_operator();
        self.may_live() && phase == 0 && !operator && !self.denied() && !self.expired(now).0
    }

    /// Returns the highest phase that an answer showed at or before this observation.
    pub(crate) fn phase_at(&self, seq: u64) -> u8 {
        let shown = self.history.iter().filter(|(at, _)| *at <= seq);
        shown.map(|(_, phase)| *phase).max().unwrap_or(0)
    }

    pub(crate) fn kill(&mut self) {
        self.authorizations.iter_mut().for_each(|auth| auth.killed = true);
    }

    /// Returns whether an address may pay for it: (surely, possibly).
    pub(crate) fn is_paid_by(&self, payer: &str) -> (bool, bool) {
        let has = self.payers.contains(payer);
        (has && self.payers.len() == 1, has || self.payers.is_empty())
    }
}

/// All loans.
#[derive(Debug, Default)]
pub(crate) struct LoanBook {
    pub(crate) recs: BTreeMap<u64, LoanRecord>,
    next: u64,
    pub(crate) by_id: BTreeMap<Id, u64>,
    pub(crate) by_identity: BTreeMap<LoanIdentity, u64>,
    /// Ids of which it is unknown which lost call they belong to.
    pub(crate) loose_ids: BTreeSet<Id>,
    pub(crate) slots: Slots,
}

impl LoanBook {
    pub(crate) fn add(&mut self, rec: LoanRecord) -> u64 {
        let key = self.next;
        self.next = self.next.saturating_add(1);
        self.by_identity.insert(rec.identity.clone(), key);
        self.recs.insert(key, rec);
        key
    }

    pub(crate) fn knows(&self, id: &str) -> bool {
        self.by_id.contains_key(id) || self.loose_ids.contains(id)
    }

    pub(crate) fn bind(&mut self, key: u64, id: &str) {
        let Some(rec) = self.recs.get_mut(&key) else { return };
        rec.id = Some(id.to_owned());
        self.by_id.insert(id.to_owned(), key);
        self.loose_ids.remove(id);
        // Calls with the same terms are alike until an answer names one of them. No transaction contains the deadline.
        let terms = |loan: &Loan| Loan { deadline_s: None, ..loan.clone() };
        let loan = terms(&rec.loan);
        let mut alike = self.recs.iter().filter(|(other, r)| {
            **other != key && r.id.is_none() && terms(&r.loan) == loan && r.may_live()
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

    /// Returns the loan of an id, or of the signatures that were shown for it.
    pub(crate) fn named(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).copied().or_else(|| self.slots.signed_for(id))
    }

    /// Returns the transaction that moves a loan's money. After a displaced one, the newest.
    pub(crate) fn main_of(&self, key: u64) -> Option<(&SlotKey, &Slot)> {
        let mut all: Vec<_> =
            self.slots.of(key).filter(|(_, slot)| slot.kind == Kind::Loan).collect();
        all.sort_by_key(|(_, slot)| (!slot.taken, slot.signed));
        all.pop()
    }

    pub(crate) fn begun(&self, key: u64) -> bool {
        self.slots.of(key).next().is_some()
    }

    /// Returns how many loans of an agent may be held.
    pub(crate) fn may_be_held(&self, agent: Option<&str>, now: &Instant) -> usize {
        let mine = |r: &&LoanRecord| agent.is_none_or(|agent| r.agent == agent);
        self.recs.values().filter(mine).filter(|r| r.may_be_held(now)).count()
    }

    /// Returns whether loans of this agent may not have ended, or may have an open transaction after their end.
    pub(crate) fn may_live(&self, agent: &str) -> bool {
        let mut mine = self.recs.iter().filter(|(_, r)| r.agent == agent);
        mine.any(|(key, r)| r.may_live() || self.slots.may_be_open_after(*key))
    }

    /// Returns whether a loan may be executed from this address.
    pub(crate) fn may_use(&self, from: &str) -> bool {
        let uses = |r: &LoanRecord| r.is_paid_by(from).1;
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
