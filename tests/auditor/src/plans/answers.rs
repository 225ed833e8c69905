//! Checks the answers to the calls of trades and loans, and to their polls.

use super::{OpenPlan, Plan, PlanRecord, PlanState};
use crate::basics::{Id, Ticket};
use crate::expect::{Input, OpenCall};
use crate::observations::Answer;
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn on_plan_answered<P: Plan>(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        answer: &Answer,
    ) -> Result<(), Violation> {
        match &open.input {
            Input::PollTrade(id) | Input::PollLoan(id) => {
                self.plan_poll_answered::<P>(open, id, answer)?;
            }
            _ => self.plan_call_answered::<P>(ticket, open, answer)?,
        }
        let book = P::book_mut(self);
        book.open.remove(&ticket);
        for rec in book.records.values_mut() {
            rec.open.remove(&ticket);
            rec.authorizations.retain(|auth| auth.ticket != ticket || auth.closed.is_some());
        }
        Ok(())
    }

    fn plan_call_answered<P: Plan>(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let Some(call) = P::book(self).open.get(&ticket).cloned() else { return Ok(()) };
        match (P::result(answer), answer) {
            (Some(result), _) => self.result_answered(open, &call, result),
            (None, Answer::Refused { http, code, .. }) => {
                self.error_answered(open, &call, *http, code)
            }
            (None, _) => {
                let what = format!("answered {answer:?}");
                Err(self.plan_violation::<P>(call.rec, "answers", &what))
            }
        }
    }

    /// Checks an answer that is not a result object.
    fn error_answered<P: Plan>(
        &mut self,
        open: &OpenCall,
        call: &OpenPlan<P>,
        http: u16,
        code: &str,
    ) -> Result<(), Violation> {
        self.count(crate::expect::refusal_tag(code));
        let known = call.errors.iter().any(|(h, c)| *h == http && *c == code);
        let conflict = code == "IDEMPOTENCY_CONFLICT" && !self.key_conflict(call).is_empty();
        if known || http == 429 || conflict {
            return Ok(());
        }
        if matches!(http, 401 | 403 | 503) || code == "IDEMPOTENCY_CONFLICT" {
            let what =
                format!("{:?} was answered {http} {code}; expected {:?}", open.input, call.errors);
            return Err(violation("answers", what));
        }
        P::check_refusal(self, open, call, &[code])
    }

    /// Checks a result object that answers a call.
    fn result_answered<P: Plan>(
        &mut self,
        open: &OpenCall,
        call: &OpenPlan<P>,
        answer: &P::Answer,
    ) -> Result<(), Violation> {
        let (id, state) = P::parts(answer);
        let key = call.rec;
        if state.codes().contains(&"JOURNAL_FAILED") {
            if self.disk_failed.is_none() {
                let what = "it was answered JOURNAL_FAILED, but the disk works";
                return Err(self.plan_violation::<P>(key, "disk", what));
            }
            // The request was not written, or is on disk without confirmation.
            self.lose_plan_call::<P>(call.ticket);
            return Ok(());
        }
        if call.snapshots.is_empty() {
            let what = format!("answered {answer:?}; expected {:?}", call.errors);
            return Err(self.plan_violation::<P>(key, "I-i", &what));
        }
        if let Some(earlier) = self.earlier_plan::<P>(key, id) {
            self.check_merged::<P>(earlier, &call.arrived_at)?;
            return self.check_state::<P>(earlier, open, call.seq, state);
        }
        let call = &self.separate_repeat(call, id);
        let key = call.rec;
        P::note_automatic(self, call);
        self.bind_answer::<P>(key, id)?;
        if let Some(rec) = P::book_mut(self).records.get_mut(&key).filter(|rec| rec.unrecorded) {
            (rec.refused, rec.unrecorded) = (None, false);
        }
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        if let Some(first) = &rec.refused {
            if first != state {
                let what = format!("refused with {first:?} before, and answered {answer:?} now");
                return Err(self.plan_violation::<P>(key, "same ask, same answer", &what));
            }
            return Ok(());
        }
        if rec.accepted {
            self.check_merged::<P>(key, &call.arrived_at)?;
            return self.check_state::<P>(key, open, call.seq, state);
        }
        let lives = |r: &&PlanRecord<P>| r.accepted && r.end.is_none() && !r.may_have_failed();
        if self.key_conflict(call).iter().any(lives) {
            let what = format!("its idempotency key belongs to another {}", P::noun());
            return Err(self.plan_violation::<P>(key, "same ask, same answer", &what));
        }
        self.first_answer(open, call, state)
    }

    /// Judges the first answer about a plan: refused, held, or executed.
    fn first_answer<P: Plan>(
        &mut self,
        open: &OpenCall,
        call: &OpenPlan<P>,
        state: &P::State,
    ) -> Result<(), Violation> {
        let (key, seq, now) = (call.rec, self.seq, self.time.instant());
        let begun = P::book(self).has_begun(key);
        // An earlier call that got no answer may have been accepted.
        let lost = P::book(self).records.get(&key).is_some_and(|rec| rec.lost);
        if state.is_without_effect() && !begun && !lost {
            P::check_refused(self, open, call, state)?;
            self.note_refused(call, state);
            self.count(P::either("trade: refused", "loan: refused"));
            return Ok(());
        }
        if !lost {
            P::check_acceptance(self, call, state)?;
        }
        let going = state.phase() > 0;
        if let Some(rec) = P::book_mut(self).records.get_mut(&key) {
            rec.accepted = true;
            rec.until = Some(seq);
            if going {
                rec.close_authorization(call.ticket, now);
            } else {
                rec.authorizations.retain(|auth| auth.ticket != call.ticket);
            }
        }
        self.count(if going {
            P::either("trade: automatic", "loan: automatic")
        } else {
            P::either("trade: held", "loan: held")
        });
        self.check_state::<P>(key, open, call.seq, state)
    }

    fn note_refused<P: Plan>(&mut self, call: &OpenPlan<P>, state: &P::State) {
        let now = self.time.instant();
        let mut recorded = None;
        if let Some(rec) = P::book_mut(self).records.get_mut(&call.rec) {
            rec.refused = Some(state.clone());
            rec.unrecorded = rec.id.is_none();
            recorded = rec.id.is_some().then(|| rec.agent.clone());
            rec.close_authorization(call.ticket, now);
        }
        if let Some(agent) = recorded {
            // The refusals that all lanes record may share one limit.
            let minute = self.time.latest_ms.div_euclid(60_000);
            let (_, most) = self.refusals.entry((agent, minute)).or_default();
            *most = most.saturating_add(1);
            P::note_refused(self, call.rec);
        }
        self.free_refused::<P>(call.rec, call.ticket);
    }

    fn plan_poll_answered<P: Plan>(
        &mut self,
        open: &OpenCall,
        id: &Id,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let known = P::book(self).by_id.get(id).copied();
        if let Answer::Refused { http, code, .. } = answer {
            let unknown = known.is_none() && code == "REQUEST_NOT_FOUND";
            let rec = known.and_then(|key| P::book(self).records.get(&key));
            // The specification is ambiguous about whether refusals of calls can be polled.
            if *http == 429 || unknown || rec.is_some_and(|rec| rec.refused.is_some()) {
                return Ok(());
            }
            if let Some(key) = known {
                let what = format!("a poll was answered {answer:?}");
                return Err(self.plan_violation::<P>(key, "I-p", &what));
            }
        }
        let result = P::result(answer).map(P::parts);
        let Some((_, state)) = result.filter(|(told, _)| told.is_none_or(|told| told == id)) else {
            return Err(violation("I-p", format!("a poll of {id} was answered {answer:?}")));
        };
        let Some(key) = known else { return self.claim_poll::<P>(open, id, state) };
        if let Some(rec) = P::book_mut(self).records.get_mut(&key) {
            rec.last_poll = (state.phase() < 2).then_some(open.arrived_at);
        }
        self.check_state::<P>(key, open, open.seq, state)
    }

    /// Finds the record of an id that was never returned: that of a call without an answer.
    fn claim_poll<P: Plan>(
        &mut self,
        open: &OpenCall,
        id: &Id,
        state: &P::State,
    ) -> Result<(), Violation> {
        let book = P::book_mut(self);
        if book.unassigned_ids.contains(id) {
            return Ok(());
        }
        let lost = |r: &PlanRecord<P>| r.id.is_none() && (r.lost || !r.open.is_empty());
        let recs = book.records.iter();
        let found: Vec<u64> = recs.filter(|(_, r)| lost(r)).map(|(key, _)| *key).collect();
        match found.as_slice() {
            [] => {
                let what = format!("{id} was never returned, and a poll is answered {state:?}");
                Err(violation("I-m", what))
            }
            [key] => {
                book.bind(*key, id);
                self.check_state::<P>(*key, open, open.seq, state)
            }
            _ => {
                book.unassigned_ids.insert(id.clone());
                Ok(())
            }
        }
    }
}
