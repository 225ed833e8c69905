//! Repeated calls of a loan: the same ask gets the same answer, and each id belongs to one loan.

use super::OpenLoan;
use crate::basics::{Id, Ticket};
use crate::loan_book::{LoanIdentity, LoanRecord};
use crate::trade_book::Authorization;
use crate::{Auditor, Violation};

impl Auditor {
    /// Returns the loans of the same agent whose idempotency key this call uses for another content.
    pub(super) fn loan_key_conflict(&self, call: &OpenLoan) -> Vec<&LoanRecord> {
        let Some(key) = &call.ask.idempotency_key else { return Vec::new() };
        let other = |r: &&LoanRecord| match &r.identity {
            LoanIdentity::Keyed { agent, key: k, content } => {
                *agent == call.ask.agent && k == key && *content != call.ask.content
            }
            _ => false,
        };
        self.loans.book.recs.values().filter(other).collect()
    }

    /// Returns the earlier loan of the same identity that an answer is about.
    pub(super) fn earlier_loan(&self, key: u64, id: Option<&Id>) -> Option<u64> {
        let book = &self.loans.book;
        let identity = &book.recs.get(&key)?.identity;
        let earlier = *book.by_id.get(id?)?;
        let rec = book.recs.get(&earlier)?;
        let bearer = identity.is_of_bearer();
        (bearer && earlier != key && rec.identity == *identity).then_some(earlier)
    }

    /// Checks that a call was rightly merged with a loan: that its content is not free again.
    pub(super) fn check_loan_merged(&self, ticket: Ticket, key: u64) -> Result<(), Violation> {
        let Some(arrived) = self.loans.arrived.get(&ticket) else { return Ok(()) };
        let content = self.loans.book.recs.get(&key).is_some_and(|r| r.identity.is_content());
        let first = self.loans.book.first_call(key, &self.time);
        if content && first.is_some_and(|first| first.is_surely_over(arrived)) {
            let what = "it was executed, and its content is answered again after ten minutes";
            return Err(self.loan_violation(key, "repeats", what));
        }
        Ok(())
    }

    /// Makes a new loan of a bearer agent's repeat, if the earlier one may have failed and has another id.
    pub(super) fn new_loan(
        &mut self,
        ticket: Ticket,
        call: &OpenLoan,
        id: Option<&Id>,
    ) -> OpenLoan {
        let mut call = call.clone();
        let own = self.loans.book.recs.get(&call.rec).and_then(|rec| rec.id.as_ref());
        let is_rejected = self.loan_is_rejected(call.rec);
        if own == id || !(is_rejected || self.loan_may_be_over(call.rec)) {
            return call;
        }
        if let Some(rec) = self.loans.book.recs.get_mut(&call.rec).filter(|_rec| is_rejected) {
            rec.kill();
        }
        call.rec = self.loan_apart(call.rec, &[ticket]);
        call
    }

    /// Makes a new loan of the other open calls of a bearer agent's loan that was refused: a refusal ends it, so the wallet
    /// may judge them as a new one.
    pub(super) fn free_refused_loan(&mut self, key: u64, refused: Ticket) {
        let Some(rec) = self.loans.book.recs.get(&key) else { return };
        let others: Vec<Ticket> = rec.open.iter().copied().filter(|one| *one != refused).collect();
        if !others.is_empty() && self.loan_may_be_over(key) {
            self.loan_apart(key, &others);
        }
    }

    /// Returns whether the id of a new loan shows that the plan of this loan was rejected.
    fn loan_is_rejected(&self, key: u64) -> bool {
        let content = self.loans.book.recs.get(&key).is_some_and(|rec| rec.identity.is_content());
        let first = self.loans.book.first_call(key, &self.time);
        content && first.is_some_and(|first| first.may_be_rejected())
    }

    /// Returns whether the wallet may judge a repeat of a bearer agent's loan as a new one.
    fn loan_may_be_over(&self, key: u64) -> bool {
        let Some(rec) = self.loans.book.recs.get(&key) else { return false };
        if rec.identity.is_content() {
            let first = self.loans.book.first_call(key, &self.time);
            return first.is_some_and(|first| first.may_be_over(&self.time));
        }
        // Refused calls of bearer agents are not remembered: a copy has its own record.
        let over_by_key = rec.refused.is_some() || (rec.accepted && rec.may_have_failed());
        rec.identity.is_of_bearer() && over_by_key
    }

    /// Moves open calls of a loan to a new loan of the same identity, and returns it.
    fn loan_apart(&mut self, key: u64, tickets: &[Ticket]) -> u64 {
        let Some(rec) = self.loans.book.recs.get_mut(&key) else { return key };
        rec.open.retain(|one| !tickets.contains(one));
        rec.authorizations.retain(|auth| !tickets.contains(&auth.ticket) || auth.closed.is_some());
        let (agent, identity) = (rec.agent.clone(), rec.identity.clone());
        let calls = tickets.iter().filter_map(|ticket| self.loans.open.get(ticket));
        let seq = calls.map(|call| call.seq).min().unwrap_or(self.seq);
        let mut next = LoanRecord::new(agent, identity, rec.loan.clone(), seq);
        next.open.extend(tickets);
        for ticket in tickets {
            let Some(call) = self.loans.open.get(ticket) else { continue };
            if let Some(opened) = self.loans.arrived.get(ticket) {
                let by_call = Authorization::by_order(*ticket, call.seq, *opened);
                next.authorizations.push(Authorization { by_call: true, ..by_call });
            }
            for snapshot in self.loans.snapshots.get(ticket).into_iter().flatten() {
                next.payers.extend(snapshot.payer.clone());
                if !next.moments.contains(&snapshot.now) {
                    next.moments.push(snapshot.now);
                }
            }
        }
        let apart = self.loans.book.add(next);
        for ticket in tickets {
            if let Some(call) = self.loans.open.get_mut(ticket) {
                call.rec = apart;
            }
        }
        apart
    }

    /// Binds the id of an answer to its loan.
    pub(super) fn bind_loan(&mut self, key: u64, id: Option<&Id>) -> Result<(), Violation> {
        let Some(id) = id else { return Ok(()) };
        let there = self.loans.book.by_id.get(id).copied();
        let own = self.loans.book.recs.get(&key).and_then(|r| r.id.clone());
        let traded = self.trades.book.by_id.contains_key(id) || self.book.by_id.contains_key(id);
        let other = there.is_some_and(|there| there != key) || traded;
        if other || own.as_ref().is_some_and(|own| own != id) {
            let what = format!("answered with the id {id}; its own is {own:?}");
            return Err(self.loan_violation(key, "same ask, same answer", &what));
        }
        if own.is_none() {
            self.loans.book.bind(key, id);
        }
        Ok(())
    }
}
