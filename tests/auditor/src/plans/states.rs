//! The reported states of a trade or loan: they never go back, and an end needs evidence on the chain.

use super::slots::{Slot, SlotKey};
use super::{Plan, PlanRecord, PlanState, Status};
use crate::expect::OpenCall;
use crate::{Auditor, Violation};

impl Auditor {
    /// Checks a reported state against all earlier reports and observations.
    pub(super) fn check_state<P: Plan>(
        &mut self,
        key: u64,
        open: &OpenCall,
        since: u64,
        state: &P::State,
    ) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        let fail = |what: String| Err(self.plan_violation::<P>(key, "I-p", &what));
        if let Some(first) = &rec.refused {
            if first != state {
                return fail(format!("it was refused as {first:?}, and is {state:?} now"));
            }
            return Ok(());
        }
        let shown = rec.phase_at(since);
        if let Some(end) = rec.end.as_ref().filter(|_| !rec.may_lose_end && shown == 2) {
            if end != state {
                return fail(format!("it had ended as {end:?}, and is {state:?} now"));
            }
            return Ok(());
        }
        if state.phase() < shown {
            return fail(format!("its status went back to {state:?}"));
        }
        match state.status() {
            Status::Pending => self.check_pending::<P>(key, open)?,
            Status::Executing => self.check_executing::<P>(key)?,
            Status::Executed | Status::Rejected | Status::Failed => P::check_end(self, key, state)?,
        }
        self.note_state::<P>(key, state);
        Ok(())
    }

    fn note_state<P: Plan>(&mut self, key: u64, state: &P::State) {
        let (seq, now) = (self.seq, self.time.instant());
        let soft = self.disk_failed.is_some() && state.status() == Status::Rejected;
        if let Some(rec) = P::book_mut(self).records.get_mut(&key) {
            rec.accepted = true;
            rec.history.push((seq, state.phase()));
            if state.phase() == 2 {
                rec.end = Some(state.clone());
                rec.may_lose_end = soft;
                rec.ended = Some(now);
                rec.last_poll = None;
            }
        }
        self.count(match state.status() {
            Status::Pending => P::either("trade: pending", "loan: pending"),
            Status::Executing => P::either("trade: executing", "loan: executing"),
            Status::Executed => P::either("trade: executed", "loan: executed"),
            Status::Rejected => P::either("trade: rejected", "loan: rejected"),
            Status::Failed => P::either("trade: failed", "loan: failed"),
        });
    }

    fn check_pending<P: Plan>(&self, key: u64, open: &OpenCall) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        let now = self.time.instant();
        if open.is_isolated && rec.accepted && rec.until.is_some() && rec.expired(&now).0 {
            let what = "it is pending after 15 minutes";
            return Err(self.plan_violation::<P>(key, "I-e", what));
        }
        if P::book(self).has_begun(key) {
            let what = "it is pending, but a step of it was signed";
            return Err(self.plan_violation::<P>(key, "I-p", what));
        }
        Ok(())
    }

    /// Checks that an approval or the call itself authorizes the execution.
    pub(crate) fn check_executing<P: Plan>(&self, key: u64) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        if rec.accepted && rec.authorizations.is_empty() && !rec.lost {
            let what = "it is executed, but the operator did not approve it";
            return Err(self.plan_violation::<P>(key, "approvals", what));
        }
        Ok(())
    }

    /// Returns whether a transaction has as many confirmations as its network requires.
    pub(crate) fn is_final<P: Plan>(&self, at: &SlotKey, slot: &Slot) -> bool {
        if slot.mined.is_some() || slot.is_nonce_taken || slot.is_cancelled {
            return true;
        }
        let deep = P::confirmations(self, at.0).unwrap_or(1);
        let newest = self.trades.market.newest_block(at.0);
        slot.included.as_ref().zip(newest).is_some_and(|(included, newest)| {
            newest.saturating_add(1) >= included.block.saturating_add(deep)
        })
    }

    /// Returns whether a transaction may have, or still get, an effect.
    pub(crate) fn may_have_effect<P: Plan>(&self, at: &SlotKey, slot: &Slot) -> bool {
        let reverted = slot.mined == Some(false) || (slot.included.is_some() && !slot.succeeded());
        let dead = slot.is_cancelled || reverted;
        !(slot.is_unsent() || slot.is_nonce_taken || (dead && self.is_final::<P>(at, slot)))
    }

    /// Returns whether the plan may be over because it expired or its deadline has passed.
    pub(crate) fn may_be_late<P: Plan>(&self, rec: &PlanRecord<P>) -> bool {
        let newest_s = self.trades.market.newest_time_s(rec.terms.chain()).unwrap_or(0);
        let late = rec.terms.deadline_s().is_some_and(|at| at <= newest_s);
        rec.expired(&self.time.instant()).1 || late
    }

    /// Checks that something explains the rejection of a plan that was accepted.
    pub(crate) fn check_explained<P: Plan>(
        &self,
        key: u64,
        rec: &PlanRecord<P>,
    ) -> Result<(), Violation> {
        let decided = !rec.authorizations.is_empty() || !rec.denials.is_empty();
        let known = rec.accepted && rec.until.is_some();
        if known && !decided && !self.may_be_late(rec) && !rec.maybe_closed {
            let what = "it was rejected without expiry, denial or approval";
            return Err(self.plan_violation::<P>(key, "I-p", what));
        }
        Ok(())
    }
}
