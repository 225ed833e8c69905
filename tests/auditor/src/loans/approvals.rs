//! The operator's decisions about loans.

use crate::basics::Ticket;
use crate::expect::OpenCall;
use crate::observations::{End, Order};
use crate::trade_book::{Authorization, Denial};
use crate::{Auditor, Violation};

/// Refusals of a decision that change nothing. Any other reason may close the loan.
const STILL_OPEN: [&str; 4] = ["CARD_CHANGED", "WALLET_LOCKED", "AGENTS_FROZEN", "JOURNAL_FAILED"];

impl Auditor {
    /// Notes an order about a loan.
    pub(crate) fn on_loan_ordered(&mut self, ticket: Ticket, order: &Order) {
        let (seq, opened) = (self.seq, self.time.instant());
        match order {
            Order::WithdrawPosition(asked) => self.on_withdrawal_ordered(ticket, asked),
            Order::WriteOff(off) => {
                let venue = off.venue.to_lowercase();
                self.loans.written_off.push((ticket, seq, off.chain, venue));
            }
            _ => {}
        }
        let (Order::Approve { id, .. } | Order::Deny { id }) = order else { return };
        let approve = matches!(order, Order::Approve { .. });
        let known = self.loans.book.by_id.get(id).copied();
        let loose = self.loans.book.loose_ids.contains(id);
        for (key, rec) in &mut self.loans.book.recs {
            let maybe = loose && rec.id.is_none() && rec.lost;
            if known != Some(*key) && !maybe {
                continue;
            }
            if approve {
                rec.authorizations.push(Authorization::by_order(ticket, seq, opened));
            } else {
                rec.denials.push((ticket, Denial::Open));
            }
        }
    }

    /// Forgets a booked loss if the order for it was refused.
    pub(crate) fn write_off_ended(&mut self, ticket: Ticket, order: &Order, end: &End) {
        if matches!(order, Order::WriteOff(_)) && matches!(end, End::Refused { .. }) {
            self.loans.written_off.retain(|(of, _, _, _)| *of != ticket);
        }
    }

    /// Checks how an approval or a denial of a loan ended.
    pub(crate) fn loan_decided(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        order: &Order,
        end: &End,
    ) -> Result<(), Violation> {
        let (Order::Approve { id, .. } | Order::Deny { id }) = order else { return Ok(()) };
        let Some(key) = self.loans.book.by_id.get(id).copied() else { return Ok(()) };
        let approve = matches!(order, Order::Approve { .. });
        let opened = self.loans.arrived.get(&ticket).copied();
        if let (Some(rec), Some(opened)) = (self.loans.book.recs.get_mut(&key), opened)
            && approve
            && !rec.authorizations.iter().any(|auth| auth.ticket == ticket)
        {
            // The id of the request was returned while the order was open.
            rec.authorizations.push(Authorization::by_order(ticket, open.seq, opened));
        }
        match end {
            End::Decided { status } if approve => self.loan_approved(key, ticket, open, status)?,
            End::Decided { .. } => self.loan_denied(key, ticket, open)?,
            End::Refused { code } => self.loan_decision_refused(key, ticket, open, code)?,
            _ => {
                let what = format!("{order:?} ended as {end:?}");
                return Err(self.loan_violation(key, "orders", &what));
            }
        }
        self.loans.arrived.remove(&ticket);
        if let (Order::Approve { card: Some(card), .. }, End::Decided { .. }) = (order, end) {
            self.check_loan_card_shown(key, card)?;
        }
        Ok(())
    }

    fn loan_approved(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
        status: &str,
    ) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        let arrived = rec.authorizations.iter().find(|auth| auth.ticket == ticket);
        let arrived = arrived.map(|auth| auth.opened);
        if rec.until.is_some() && arrived.is_some_and(|at| rec.expired(&at).0) {
            let what = "it was approved after 15 minutes";
            return Err(self.loan_violation(key, "I-e", what));
        }
        if rec.phase_at(open.seq) > 0 || rec.denied() {
            let what = "it was approved although it had been decided";
            return Err(self.loan_violation(key, "approvals", what));
        }
        if open.isolated && self.forbids(rec.actor()).is_some() {
            let what = "it was approved although nothing may be signed for the agent";
            return Err(self.loan_violation(key, "approvals", what));
        }
        let (seq, now) = (self.seq, self.time.instant());
        if let Some(rec) = self.loans.book.recs.get_mut(&key) {
            let mine = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
            mine.for_each(|auth| auth.closed = Some(now));
            // A rejected approval is final too, but its end shows only in a poll.
            if status == "executing" || status == "signed" {
                rec.history.push((seq, 1));
            }
        }
        if status == "executing" {
            self.note_approved_price(key, open.seq);
        }
        self.count("loan: approved");
        Ok(())
    }

    fn loan_denied(&mut self, key: u64, ticket: Ticket, open: &OpenCall) -> Result<(), Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(()) };
        if rec.phase_at(open.seq) > 0 || self.loans.book.begun(key) {
            let what = "it was denied although it is executed, or has ended";
            return Err(self.loan_violation(key, "approvals", what));
        }
        let seq = self.seq;
        if let Some(rec) = self.loans.book.recs.get_mut(&key) {
            for (of, denial) in &mut rec.denials {
                if *of == ticket {
                    *denial = Denial::Done;
                }
            }
            rec.kill();
            rec.history.push((seq, 2));
        }
        self.count("loan: denied");
        Ok(())
    }

    fn loan_decision_refused(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
        code: &str,
    ) -> Result<(), Violation> {
        let now = self.time.instant();
        self.check_money_refusal(key, &[code])?;
        let Some(rec) = self.loans.book.recs.get_mut(&key) else { return Ok(()) };
        rec.denials.retain(|(of, _)| *of != ticket);
        let mut before = rec.clone();
        before.authorizations.retain(|auth| auth.ticket != ticket);
        let held = before.surely_held(&now) && open.isolated;
        let closed = !STILL_OPEN.contains(&code);
        rec.maybe_closed |= closed;
        // Until the refusal the loan was executing.
        rec.authorizations.retain(|auth| auth.ticket != ticket || closed);
        let refused = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
        refused.for_each(|auth| auth.killed = true);
        let rule = match code {
            "REQUEST_NOT_FOUND" => Some("I-p"),
            "REQUEST_EXPIRED" => held.then_some("I-e"),
            "REQUEST_ALREADY_PROCESSED" => held.then_some("approvals"),
            _ => None,
        };
        match rule {
            Some(rule) => {
                let what = format!("the decision was refused with {code}");
                Err(self.loan_violation(key, rule, &what))
            }
            None => Ok(()),
        }
    }
}
