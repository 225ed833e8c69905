//! All records of one kind, with their ids, open calls and transactions.

use super::slots::{Body, Slot, SlotKey, Slots};
use super::{Denial, OpenPlan, Plan, PlanIdentity, PlanRecord};
use crate::basics::{Id, Ticket};
use crate::clocks::Instant;
use std::collections::{BTreeMap, BTreeSet};

/// All trades, or all loans.
#[derive(Debug)]
pub(crate) struct PlanBook<P: Plan> {
    pub(crate) records: BTreeMap<u64, PlanRecord<P>>,
    next_key: u64,
    pub(crate) by_id: BTreeMap<Id, u64>,
    pub(crate) by_identity: BTreeMap<PlanIdentity, u64>,
    /// Ids of lost calls. It is unknown to which lost call each of them belongs.
    pub(crate) unassigned_ids: BTreeSet<Id>,
    pub(crate) slots: Slots,
    /// The open calls.
    pub(crate) open: BTreeMap<Ticket, OpenPlan<P>>,
    /// Transactions that were signed after the end of their plans.
    pub(crate) void_transactions: BTreeSet<(SlotKey, Body)>,
    /// Swaps that may have been signed too late, after the end of their plans. They count once they are broadcast.
    pub(crate) late_swaps: BTreeMap<(SlotKey, Body), Slot>,
}

impl<P: Plan> Default for PlanBook<P> {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            next_key: 0,
            by_id: BTreeMap::new(),
            by_identity: BTreeMap::new(),
            unassigned_ids: BTreeSet::new(),
            slots: Slots::default(),
            open: BTreeMap::new(),
            void_transactions: BTreeSet::new(),
            late_swaps: BTreeMap::new(),
        }
    }
}

impl<P: Plan> PlanBook<P> {
    pub(crate) fn add(&mut self, rec: PlanRecord<P>) -> u64 {
        let key = self.next_key;
        self.next_key = self.next_key.saturating_add(1);
        self.by_identity.insert(rec.identity.clone(), key);
        self.records.insert(key, rec);
        key
    }

    pub(crate) fn knows_id(&self, id: &str) -> bool {
        self.by_id.contains_key(id) || self.unassigned_ids.contains(id)
    }

    pub(crate) fn find(&self, id: &str) -> Option<(u64, &PlanRecord<P>)> {
        let key = *self.by_id.get(id)?;
        self.records.get(&key).map(|rec| (key, rec))
    }

    pub(crate) fn bind(&mut self, key: u64, id: &str) {
        let Some(rec) = self.records.get_mut(&key) else { return };
        rec.id = Some(id.to_owned());
        self.by_id.insert(id.to_owned(), key);
        self.unassigned_ids.remove(id);
        // Records with the same terms cannot be told apart until an answer names one of them.
        let terms = rec.terms.clone();
        let mut alike = self.records.iter().filter(|(other, r)| {
            **other != key && r.id.is_none() && r.terms.has_same_calls(&terms) && r.may_live()
        });
        if let Some((other, _)) = alike.next() {
            self.slots.reassign_steps(key, *other, id);
        }
        if let Some(before) = self.slots.assign_to_record(id, key)
            && let Some(other) = self.records.get(&before)
        {
            let (baseline, automatic) = (other.baseline.clone(), other.may_be_automatic);
            if let Some(rec) = self.records.get_mut(&key) {
                rec.baseline = rec.baseline.take().or(baseline);
                rec.may_be_automatic |= automatic;
            }
        }
    }

    /// Returns the record with this id, or the record whose steps were signed for this id.
    pub(crate) fn record_of_id(&self, id: &str) -> Option<u64> {
        self.by_id.get(id).copied().or_else(|| self.slots.signed_for(id))
    }

    /// Returns the transaction of the plan's main step.
    pub(crate) fn main_of(&self, key: u64) -> Option<(&SlotKey, &Slot)> {
        P::main_of(&self.slots, key)
    }

    /// Returns whether a step of the plan was signed.
    pub(crate) fn has_begun(&self, key: u64) -> bool {
        self.slots.of_record(key).next().is_some()
    }

    /// Returns how many records of an agent may be held.
    pub(crate) fn may_be_held(&self, agent: Option<&str>, now: &Instant) -> usize {
        let mine = |r: &&PlanRecord<P>| agent.is_none_or(|agent| r.agent == agent);
        self.records.values().filter(mine).filter(|r| r.may_be_held(now)).count()
    }

    /// Returns whether a plan of this agent may be unfinished, or may have an open transaction after its end.
    pub(crate) fn may_live(&self, agent: &str) -> bool {
        let mut mine = self.records.iter().filter(|(_, r)| r.agent == agent);
        mine.any(|(key, r)| {
            r.may_live() || (P::may_revoke_after_end(r) && self.slots.may_be_open_after(*key))
        })
    }

    /// Returns whether a plan may be executed from this address.
    pub(crate) fn may_use(&self, from: &str) -> bool {
        let uses = |r: &PlanRecord<P>| r.is_paid_by(from).1;
        self.records.values().any(|r| uses(r) && r.may_live()) || self.slots.in_flight(from)
    }

    /// Marks a call or order as lost: it is unknown whether it was executed.
    pub(crate) fn mark_uncertain(&mut self, ticket: Ticket, now: Instant) {
        for rec in self.records.values_mut() {
            if rec.open.remove(&ticket) {
                rec.lost = true;
            }
            for auth in rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket) {
                // The order may not have been executed; if it was, a plan that had begun continues.
                (auth.is_killed, auth.lost_at) = (true, Some(now));
            }
            for (of, denial) in &mut rec.denials {
                if *of == ticket && *denial == Denial::Open {
                    *denial = Denial::Lost;
                }
            }
        }
    }

    pub(crate) fn process_ended(&mut self) {
        for rec in self.records.values_mut() {
            if rec.may_lose_end {
                (rec.end, rec.may_lose_end) = (None, false);
                rec.history.retain(|(_, phase)| *phase < 2);
            }
        }
        self.slots.process_ended();
    }
}
