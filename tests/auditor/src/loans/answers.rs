//! Checks the answers to `POST /position` and to polls.

use super::OpenLoan;
use super::states::phase;
use crate::basics::{Id, Ticket};
use crate::expect::{Input, OpenCall};
use crate::lending::{LoanAnswer, LoanState};
use crate::loan_book::LoanRecord;
use crate::observations::Answer;
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn on_loan_answered(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        answer: &Answer,
    ) -> Result<(), Violation> {
        match &open.input {
            Input::PollLoan(id) => self.loan_poll_answered(ticket, open, id, answer)?,
            Input::Loan(_) => {
                let call = self.loans.open.get(&ticket).cloned();
                match (call, answer) {
                    (Some(call), Answer::Loan(answer)) => {
                        self.loan_result(ticket, open, &call, answer)?;
                    }
                    (Some(call), Answer::Refused { http, code, .. }) => {
                        self.loan_error(ticket, open, &call, *http, code)?;
                    }
                    (Some(call), _) => {
                        let what = format!("answered {answer:?}");
                        return Err(self.loan_violation(call.rec, "answers", &what));
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
        self.loans.open.remove(&ticket);
        self.loans.arrived.remove(&ticket);
        self.loans.snapshots.remove(&ticket);
        for rec in self.loans.book.recs.values_mut() {
            rec.open.remove(&ticket);
            rec.authorizations.retain(|auth| auth.ticket != ticket || auth.closed.is_some());
        }
        Ok(())
    }

    /// Checks an answer that is not a result object.
    fn loan_error(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        call: &OpenLoan,
        http: u16,
        code: &str,
    ) -> Result<(), Violation> {
        self.count(crate::expect::refusal_tag(code));
        let known = call.errors.iter().any(|(h, c)| *h == http && *c == code);
        let conflict = code == "IDEMPOTENCY_CONFLICT" && !self.loan_key_conflict(call).is_empty();
        if known || http == 429 || conflict {
            return Ok(());
        }
        if matches!(http, 401 | 403 | 503) || code == "IDEMPOTENCY_CONFLICT" {
            let what =
                format!("{:?} was answered {http} {code}; expected {:?}", open.input, call.errors);
            return Err(violation("answers", what));
        }
        self.check_loan_refusal(ticket, open, call, &[code])
    }

    /// Checks a result object that answers a call.
    fn loan_result(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        call: &OpenLoan,
        answer: &LoanAnswer,
    ) -> Result<(), Violation> {
        let key = call.rec;
        if super::refusals::journal_failed(&answer.state) {
            if self.disk_failed.is_none() {
                let what = "it was answered JOURNAL_FAILED, but the disk works";
                return Err(self.loan_violation(key, "disk", what));
            }
            // The request was not written, or is on disk without confirmation.
            self.lose_loan_call(ticket);
            return Ok(());
        }
        if self.loans.snapshots.get(&ticket).is_none_or(Vec::is_empty) {
            let what = format!("answered {answer:?}; expected {:?}", call.errors);
            return Err(self.loan_violation(key, "I-i", &what));
        }
        if let Some(earlier) = self.earlier_loan(key, answer.id.as_ref()) {
            self.check_loan_merged(ticket, earlier)?;
            return self.check_loan_state(earlier, open, call.seq, &answer.state);
        }
        let call = &self.new_loan(ticket, call, answer.id.as_ref());
        let key = call.rec;
        self.note_automatic_loan(ticket, call);
        self.bind_loan(key, answer.id.as_ref())?;
        if let Some(rec) = self.loans.book.recs.get_mut(&key).filter(|rec| rec.unrecorded) {
            (rec.refused, rec.unrecorded) = (None, false);
        }
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        if let Some(first) = &rec.refused {
            if *first != answer.state {
                let what = format!("refused with {first:?} before, and answered {answer:?} now");
                return Err(self.loan_violation(key, "same ask, same answer", &what));
            }
            return Ok(());
        }
        let repeat = rec.accepted;
        let lives = |r: &&LoanRecord| r.accepted && r.end.is_none() && !r.may_have_failed();
        if !repeat && self.loan_key_conflict(call).iter().any(lives) {
            let what = "its idempotency key belongs to another loan";
            return Err(self.loan_violation(key, "same ask, same answer", what));
        }
        if repeat {
            self.check_loan_merged(ticket, key)?;
            return self.check_loan_state(key, open, call.seq, &answer.state);
        }
        self.first_loan_answer(ticket, open, call, &answer.state)
    }

    /// Judges the first answer about a loan: refused, held, or executed.
    fn first_loan_answer(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        call: &OpenLoan,
        state: &LoanState,
    ) -> Result<(), Violation> {
        let (key, seq, now) = (call.rec, self.seq, self.time.instant());
        let begun = self.loans.book.begun(key);
        // An earlier call that got no answer may have been accepted.
        let lost = self.loans.book.recs.get(&key).is_some_and(|rec| rec.lost);
        let refused = matches!(state, LoanState::Rejected { .. } | LoanState::Failed { .. });
        if refused && !begun && !lost {
            self.check_loan_refusal(ticket, open, call, &super::refusals::codes_of(state))?;
            super::refusals::check_retryable(state)
                .map_err(|what| self.loan_violation(key, "answers", &what))?;
            let mut recorded = None;
            if let Some(rec) = self.loans.book.recs.get_mut(&key) {
                rec.refused = Some(state.clone());
                rec.unrecorded = rec.id.is_none();
                recorded = rec.id.is_some().then(|| rec.agent.clone());
                let mine = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
                mine.for_each(|auth| auth.closed = Some(now));
            }
            if let Some(agent) = recorded {
                // Recorded refusals of all lanes may share one bound.
                let minute = self.time.latest_ms.div_euclid(60_000);
                let (_, most) = self.refusals.entry((agent, minute)).or_default();
                *most = most.saturating_add(1);
                self.note_refused_price(key);
            }
            self.free_refused_loan(key, ticket);
            self.count("loan: refused");
            return Ok(());
        }
        if !lost {
            self.check_loan_acceptance(ticket, call, state)?;
            self.note_accepted_price(key);
        }
        let going = phase(state) > 0;
        if let Some(rec) = self.loans.book.recs.get_mut(&key) {
            rec.accepted = true;
            rec.until = Some(seq);
            if going {
                let mine = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
                mine.for_each(|auth| auth.closed = Some(now));
            } else {
                rec.authorizations.retain(|auth| auth.ticket != ticket);
            }
        }
        self.count(if going { "loan: automatic" } else { "loan: held" });
        self.check_loan_state(key, open, call.seq, state)
    }

    /// Checks that a loan was rightly accepted.
    fn check_loan_acceptance(
        &mut self,
        ticket: Ticket,
        call: &OpenLoan,
        state: &LoanState,
    ) -> Result<(), Violation> {
        let key = call.rec;
        let automatic = self.loans.book.recs.get(&key).is_some_and(|rec| rec.automatic);
        if self.loans.book.begun(key) && automatic {
            // The wallet decided before its first step, which was judged then.
            return Ok(());
        }
        let verdicts = self.loan_verdicts(key, ticket, call.seq);
        if verdicts.iter().all(|v| v.must_refuse.is_some()) {
            let why = verdicts.iter().find_map(|v| v.must_refuse);
            let (rule, why) = why.unwrap_or(("I-i", "the agent has no policy"));
            let what = format!("it was answered {state:?}, but {why}");
            return Err(self.loan_violation(key, rule, &what));
        }
        // A loan that failed before any signature was not executed.
        let going = matches!(state, LoanState::Executing | LoanState::Executed { .. });
        if going && !automatic && verdicts.iter().all(|v| v.must_hold.is_some()) {
            let why = verdicts.iter().find_map(|v| v.must_hold);
            let (rule, why) = why.unwrap_or(("must ask", "the agent has no policy"));
            let what = format!("it was answered {state:?} without an approval, but {why}");
            return Err(self.loan_violation(key, rule, &what));
        }
        Ok(())
    }

    fn loan_poll_answered(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        id: &Id,
        answer: &Answer,
    ) -> Result<(), Violation> {
        let known = self.loans.book.by_id.get(id).copied();
        match (known, answer) {
            (_, Answer::Refused { http: 429, .. }) => Ok(()),
            (Some(key), Answer::Refused { .. }) => {
                let rec = self.loans.book.recs.get(&key);
                if rec.is_some_and(|rec| rec.refused.is_some()) {
                    // The specification is ambiguous about whether refusals of calls can be polled.
                    return Ok(());
                }
                let what = format!("a poll was answered {answer:?}");
                Err(self.loan_violation(key, "I-p", &what))
            }
            (None, Answer::Refused { code, .. }) if code == "REQUEST_NOT_FOUND" => Ok(()),
            (_, Answer::Loan(LoanAnswer { id: told, .. }))
                if told.as_ref().is_some_and(|told| told != id) =>
            {
                Err(violation("I-p", format!("a poll of {id} was answered {answer:?}")))
            }
            (Some(key), Answer::Loan(LoanAnswer { state, .. })) => {
                let arrived = self.loans.arrived.get(&ticket).copied();
                if let Some(rec) = self.loans.book.recs.get_mut(&key) {
                    rec.last_poll = arrived.filter(|_| phase(state) < 2);
                }
                self.check_loan_state(key, open, open.seq, state)
            }
            (None, Answer::Loan(LoanAnswer { state, .. })) => self.claim_loan_poll(open, id, state),
            _ => Err(violation("I-p", format!("a poll of {id} was answered {answer:?}"))),
        }
    }

    /// Finds the loan of an id that was never returned: that of a call without an answer.
    fn claim_loan_poll(
        &mut self,
        open: &OpenCall,
        id: &Id,
        state: &LoanState,
    ) -> Result<(), Violation> {
        if self.loans.book.loose_ids.contains(id) {
            return Ok(());
        }
        let lost = |r: &LoanRecord| r.id.is_none() && (r.lost || !r.open.is_empty());
        let recs = self.loans.book.recs.iter();
        let found: Vec<u64> = recs.filter(|(_, r)| lost(r)).map(|(key, _)| *key).collect();
        match found.as_slice() {
            [] => {
                let what = format!("{id} was never returned, and a poll is answered {state:?}");
                Err(violation("I-m", what))
            }
            [key] => {
                self.loans.book.bind(*key, id);
                self.check_loan_state(*key, open, open.seq, state)
            }
            _ => {
                self.loans.book.loose_ids.insert(id.clone());
                Ok(())
            }
        }
    }
}
