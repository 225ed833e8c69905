//! Repeated calls of a trade or loan: the same ask gets the same answer, and each id belongs to one record.

use super::{Authorization, OpenPlan, Plan, PlanIdentity, PlanRecord};
use crate::basics::{Id, Ticket};
use crate::clocks::Instant;
use crate::{Auditor, Violation};

impl Auditor {
    /// Returns the agent's other records that have this call's idempotency key and a different content.
    pub(super) fn key_conflict<P: Plan>(&self, call: &OpenPlan<P>) -> Vec<&PlanRecord<P>> {
        let Some(key) = &call.ask.idempotency_key else { return Vec::new() };
        let other = |r: &&PlanRecord<P>| match &r.identity {
            PlanIdentity::Keyed { agent, key: k, content } => {
                *agent == call.ask.agent && k == key && *content != call.ask.content
            }
            _ => false,
        };
        P::book(self).records.values().filter(other).collect()
    }

    /// Returns the earlier record of the same identity that an answer with this id is about.
    pub(super) fn earlier_plan<P: Plan>(&self, key: u64, id: Option<&Id>) -> Option<u64> {
        let identity = &P::book(self).records.get(&key)?.identity;
        let (earlier, rec) = P::book(self).find(id?)?;
        let bearer = identity.is_of_bearer();
        (bearer && earlier != key && rec.identity == *identity).then_some(earlier)
    }

    /// Checks that a call was rightly merged with a record: the call must not surely be a new request.
    pub(super) fn check_merged<P: Plan>(
        &self,
        key: u64,
        arrived: &Instant,
    ) -> Result<(), Violation> {
        let content = P::book(self).records.get(&key).is_some_and(|r| r.identity.is_content());
        let first = P::book(self).first_call(key, &self.time);
        if content && first.is_some_and(|first| first.is_surely_over(arrived)) {
            let what = "it was executed, and its content is answered again after ten minutes";
            return Err(self.plan_violation::<P>(key, "repeats", what));
        }
        Ok(())
    }

    /// Makes a new record for a bearer agent's repeat, if the earlier record may have failed and has another id.
    pub(super) fn separate_repeat<P: Plan>(
        &mut self,
        call: &OpenPlan<P>,
        id: Option<&Id>,
    ) -> OpenPlan<P> {
        let mut call = call.clone();
        let own = P::book(self).records.get(&call.rec).and_then(|rec| rec.id.as_ref());
        let is_rejected = self.plan_is_rejected::<P>(call.rec);
        if own == id || !(is_rejected || self.plan_may_be_over::<P>(call.rec)) {
            return call;
        }
        let rec = P::book_mut(self).records.get_mut(&call.rec);
        if let Some(rec) = rec.filter(|_rec| is_rejected) {
            rec.reject();
        }
        call.rec = self.set_apart::<P>(call.rec, &[call.ticket]);
        call
    }

    /// Moves the other open calls of a bearer agent's refused plan to a new record.
    ///
    /// The refusal ended the plan, so the wallet may judge these calls as a new plan.
    pub(super) fn free_refused<P: Plan>(&mut self, key: u64, refused: Ticket) {
        let Some(rec) = P::book(self).records.get(&key) else { return };
        let others: Vec<Ticket> = rec.open.iter().copied().filter(|one| *one != refused).collect();
        if !others.is_empty() && self.plan_may_be_over::<P>(key) {
            self.set_apart::<P>(key, &others);
        }
    }

    /// Returns whether a new request of the same content would show that this plan was rejected.
    pub(crate) fn plan_is_rejected<P: Plan>(&self, key: u64) -> bool {
        let content = P::book(self).records.get(&key).is_some_and(|rec| rec.identity.is_content());
        let first = P::book(self).first_call(key, &self.time);
        content && first.is_some_and(|first| first.may_be_rejected())
    }

    /// Returns whether the wallet may judge a repeat of a bearer agent's call as a new request.
    fn plan_may_be_over<P: Plan>(&self, key: u64) -> bool {
        let Some(rec) = P::book(self).records.get(&key) else { return false };
        if rec.identity.is_content() {
            let first = P::book(self).first_call(key, &self.time);
            return first.is_some_and(|first| first.may_be_over(&self.time));
        }
        // The wallet does not remember the refused calls of bearer agents, so a repeat has its own record.
        let over_by_key = rec.refused.is_some() || (rec.accepted && rec.may_have_failed());
        rec.identity.is_of_bearer() && over_by_key
    }

    /// Moves open calls of a record to a new one of the same identity, and returns it.
    pub(crate) fn set_apart<P: Plan>(&mut self, key: u64, tickets: &[Ticket]) -> u64 {
        let now = self.seq;
        let book = P::book_mut(self);
        let Some(rec) = book.records.get_mut(&key) else { return key };
        rec.open.retain(|one| !tickets.contains(one));
        rec.authorizations.retain(|auth| !tickets.contains(&auth.ticket) || auth.closed.is_some());
        let calls = || tickets.iter().filter_map(|ticket| book.open.get(ticket));
        let seq = calls().map(|call| call.seq).min().unwrap_or(now);
        let (agent, identity) = (rec.agent.clone(), rec.identity.clone());
        let mut next = PlanRecord::new(agent, identity, rec.terms.clone(), seq);
        next.open.extend(tickets);
        let by_call =
            |call: &OpenPlan<P>| Authorization::by_call(call.ticket, call.seq, call.arrived_at);
        next.authorizations.extend(calls().map(by_call));
        let apart = book.add(next);
        for ticket in tickets {
            let Some(call) = P::book_mut(self).open.get_mut(ticket) else { continue };
            call.rec = apart;
            let call = call.clone();
            P::note_snapshots(self, &call);
        }
        apart
    }

    /// Binds the id of an answer to the call's record.
    pub(super) fn bind_answer<P: Plan>(
        &mut self,
        key: u64,
        id: Option<&Id>,
    ) -> Result<(), Violation> {
        let Some(id) = id else { return Ok(()) };
        let there = P::book(self).by_id.get(id).copied();
        let own = P::book(self).records.get(&key).and_then(|r| r.id.clone());
        let other = there.is_some_and(|there| there != key) || P::is_known_elsewhere(self, id);
        if other || own.as_ref().is_some_and(|own| own != id) {
            let what = format!("answered with the id {id}; its own is {own:?}");
            return Err(self.plan_violation::<P>(key, "same ask, same answer", &what));
        }
        if own.is_none() {
            P::book_mut(self).bind(key, id);
        }
        Ok(())
    }
}
