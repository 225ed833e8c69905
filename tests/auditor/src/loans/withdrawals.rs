//! Operator orders without an agent: withdrawals, which need an open wallet, and booked losses.

use super::LoanRecord;
use crate::basics::Ticket;
use crate::lending::{Loan, LoanAction, OperatorWithdrawal, WriteOff};
use crate::observations::{End, Order};
use crate::plans::{Authorization, PlanIdentity};
use crate::{Auditor, Violation, violation};

impl Auditor {
    pub(crate) fn on_write_off_ordered(&mut self, ticket: Ticket, off: &WriteOff) {
        self.loans.written_off.push((ticket, self.seq, off.chain, off.venue.to_lowercase()));
    }

    /// Removes a booked loss if the order to book it was refused.
    pub(crate) fn end_write_off(&mut self, ticket: Ticket, order: &Order, end: &End) {
        if matches!(order, Order::WriteOff(_)) && matches!(end, End::Refused { .. }) {
            self.loans.written_off.retain(|(of, _, _, _)| *of != ticket);
        }
    }

    pub(crate) fn on_withdrawal_ordered(&mut self, ticket: Ticket, asked: &OperatorWithdrawal) {
        let loan = Loan {
            chain: asked.chain,
            action: LoanAction::Withdraw,
            venue: asked.venue.to_lowercase(),
            kind: asked.kind,
            amount: asked.amount,
            deadline_s: None,
        };
        let identity = PlanIdentity::Single(ticket);
        let mut rec = LoanRecord::new(String::new(), identity, loan, self.seq);
        for w in &self.possible_configs {
            let account = w.config.account_named(&asked.label);
            let account = account.and_then(|uid| w.config.accounts.get(&uid));
            rec.payers.extend(account.and_then(|account| account.address.clone()));
        }
        let auth = Authorization::by_order(ticket, self.seq, self.time.instant());
        rec.authorizations.push(auth);
        rec.open.insert(ticket);
        self.loans.book.add(rec);
    }

    /// Checks how the order for an operator's withdrawal ended.
    pub(crate) fn check_withdrawal_end(
        &mut self,
        ticket: Ticket,
        order: &Order,
        end: &End,
    ) -> Result<(), Violation> {
        let identity = PlanIdentity::Single(ticket);
        let Some(key) = self.loans.book.by_identity.get(&identity).copied() else { return Ok(()) };
        let now = self.time.instant();
        let begun = self.loans.book.has_begun(key);
        let locked = self.forbidding_rule(None).is_some();
        let Some(rec) = self.loans.book.records.get_mut(&key) else { return Ok(()) };
        rec.open.remove(&ticket);
        match end {
            End::Sent { id } => {
                if locked && !begun {
                    let what = "a withdrawal was ordered while the wallet is locked";
                    return Err(self.loan_violation(key, "I-f", what));
                }
                rec.accepted = true;
                rec.until = Some(self.seq);
                rec.authorizations.iter_mut().for_each(|auth| auth.closed = Some(now));
                self.loans.book.bind(key, id);
            }
            End::Refused { code } => {
                self.check_money_refusal(key, &[code])?;
                if begun {
                    let what = format!("{order:?} was refused, but a step of it was signed");
                    return Err(self.loan_violation(key, "orders", &what));
                }
                if let Some(rec) = self.loans.book.records.get_mut(&key) {
                    rec.authorizations.clear();
                    rec.maybe_closed = true;
                }
            }
            _ => return Err(violation("orders", format!("{order:?} ended as {end:?}"))),
        }
        self.count("order: withdraw");
        Ok(())
    }
}
