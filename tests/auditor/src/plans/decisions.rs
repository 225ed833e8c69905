//! The operator's decisions about trades and loans.

use super::{Authorization, Denial, Plan};
use crate::basics::Ticket;
use crate::expect::OpenCall;
use crate::observations::{End, Order};
use crate::{Auditor, Violation};

/// Refusals of a decision that change nothing. Any other reason may close the request.
const HARMLESS_REFUSALS: [&str; 4] =
    ["CARD_CHANGED", "WALLET_LOCKED", "AGENTS_FROZEN", "JOURNAL_FAILED"];

impl Auditor {
    /// Notes an order to approve or deny.
    pub(crate) fn on_decision_ordered<P: Plan>(&mut self, ticket: Ticket, order: &Order) {
        let (Order::Approve { id, .. } | Order::Deny { id }) = order else { return };
        let (seq, opened) = (self.seq, self.time.instant());
        let approve = matches!(order, Order::Approve { .. });
        let book = P::book_mut(self);
        let known = book.by_id.get(id).copied();
        let loose = book.unassigned_ids.contains(id);
        for (key, rec) in &mut book.records {
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

    /// Checks how an approval or a denial ended.
    pub(crate) fn plan_decided<P: Plan>(
        &mut self,
        ticket: Ticket,
        open: &OpenCall,
        order: &Order,
        end: &End,
    ) -> Result<(), Violation> {
        let (Order::Approve { id, .. } | Order::Deny { id }) = order else { return Ok(()) };
        let Some(key) = P::book(self).by_id.get(id).copied() else { return Ok(()) };
        let approve = matches!(order, Order::Approve { .. });
        if let Some(rec) = P::book_mut(self).records.get_mut(&key)
            && approve
            && !rec.authorizations.iter().any(|auth| auth.ticket == ticket)
        {
            // The id of the request was returned while the order was open.
            rec.authorizations.push(Authorization::by_order(ticket, open.seq, open.arrived_at));
        }
        match end {
            End::Decided { status } if approve => {
                self.plan_approved::<P>(key, ticket, open, status)?;
            }
            End::Decided { .. } => self.plan_denied::<P>(key, ticket, open)?,
            End::Refused { code } => self.decision_refused::<P>(key, ticket, open, code)?,
            _ => {
                let what = format!("{order:?} ended as {end:?}");
                return Err(self.plan_violation::<P>(key, "orders", &what));
            }
        }
        if let (Order::Approve { card: Some(card), .. }, End::Decided { .. }) = (order, end) {
            self.check_shown_card::<P>(key, card)?;
        }
        Ok(())
    }

    fn plan_approved<P: Plan>(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
        status: &str,
    ) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        let fail = |rule, what| Err(self.plan_violation::<P>(key, rule, what));
        let arrived = rec.authorizations.iter().find(|auth| auth.ticket == ticket);
        let arrived = arrived.map(|auth| auth.opened);
        if rec.until.is_some() && arrived.is_some_and(|at| rec.expired(&at).0) {
            return fail("I-e", "it was approved after 15 minutes");
        }
        if rec.phase_at(open.seq) > 0 || rec.is_denied() {
            return fail("approvals", "it was approved although it had been decided");
        }
        if open.is_isolated && self.forbidding_rule(rec.actor()).is_some() {
            let what = "it was approved although nothing may be signed for the agent";
            return fail("approvals", what);
        }
        let (seq, now) = (self.seq, self.time.instant());
        if let Some(rec) = P::book_mut(self).records.get_mut(&key) {
            rec.close_authorization(ticket, now);
            // A rejected approval is final too, but its end shows only in a poll.
            if status == "executing" || status == "signed" {
                rec.history.push((seq, 1));
            }
        }
        if status == "executing" {
            P::note_approved(self, key, open.seq);
        }
        self.count(P::either("trade: approved", "loan: approved"));
        Ok(())
    }

    fn plan_denied<P: Plan>(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
    ) -> Result<(), Violation> {
        let Some(rec) = P::book(self).records.get(&key) else { return Ok(()) };
        if rec.phase_at(open.seq) > 0 || P::book(self).has_begun(key) {
            let what = "it was denied although it is executed, or has ended";
            return Err(self.plan_violation::<P>(key, "approvals", what));
        }
        let seq = self.seq;
        if let Some(rec) = P::book_mut(self).records.get_mut(&key) {
            for (_, denial) in rec.denials.iter_mut().filter(|(of, _)| *of == ticket) {
                *denial = Denial::Done;
            }
            rec.end_unsigned();
            rec.history.push((seq, 2));
        }
        self.count(P::either("trade: denied", "loan: denied"));
        Ok(())
    }

    fn decision_refused<P: Plan>(
        &mut self,
        key: u64,
        ticket: Ticket,
        open: &OpenCall,
        code: &str,
    ) -> Result<(), Violation> {
        P::check_decision_refused(self, key, code)?;
        let now = self.time.instant();
        let Some(rec) = P::book_mut(self).records.get_mut(&key) else { return Ok(()) };
        rec.denials.retain(|(of, _)| *of != ticket);
        let mut before = rec.clone();
        before.authorizations.retain(|auth| auth.ticket != ticket);
        let held = before.is_surely_held(&now) && open.is_isolated;
        let closed = !HARMLESS_REFUSALS.contains(&code);
        rec.maybe_closed |= closed;
        // Keep the authorization unless the refusal changes nothing: until the refusal, the plan may have been
        // executing.
        rec.authorizations.retain(|auth| auth.ticket != ticket || closed);
        let refused = rec.authorizations.iter_mut().filter(|auth| auth.ticket == ticket);
        refused.for_each(|auth| auth.is_killed = true);
        let rule = match code {
            "REQUEST_NOT_FOUND" => Some("I-p"),
            "REQUEST_EXPIRED" => held.then_some("I-e"),
            "REQUEST_ALREADY_PROCESSED" => held.then_some("approvals"),
            _ => None,
        };
        match rule {
            Some(rule) => {
                let what = format!("the decision was refused with {code}");
                Err(self.plan_violation::<P>(key, rule, &what))
            }
            None => Ok(()),
        }
    }
}
