//! The order of a plan's steps, and one plan at a time on an address and a network, trades included (rule I-t).

use super::steps::Step;
use crate::basics::Transaction;
use crate::loan_book::LoanRecord;
use crate::trade_slots::Kind;
use crate::trades::authority::has_lapsed;
use crate::{Auditor, Violation};

impl Auditor {
    /// Checks the order of the steps: one plan at a time, each step once, and each after the one before.
    pub(super) fn check_loan_plan(&self, step: &Step, tx: &Transaction) -> Result<(), Violation> {
        let (book, key) = (&self.loans.book, step.key);
        let from = tx.from.to_lowercase();
        if book.slots.of(key).any(|(_, slot)| slot.kind == step.kind && !slot.taken) {
            let (rule, what) = match step.kind {
                Kind::Loan => ("I-b", "its money was moved by a second transaction"),
                _ => ("allowance", "a second allowance was signed"),
            };
            return Err(self.loan_violation(key, rule, what));
        }
        if let Some(other) = self.unfinished_loan(tx.chain, &from, Some(key)) {
            let id = self.loans.book.recs.get(&other).and_then(|rec| rec.id.clone());
            let what = format!(
                "a step was signed while the plan of {id:?} was unfinished on the same address"
            );
            return Err(self.loan_violation(key, "one plan", &what));
        }
        if let Some(other) = self.unfinished_trade(tx.chain, &from) {
            let id = self.trades.book.recs.get(&other).and_then(|rec| rec.id.clone());
            let what = format!(
                "a step was signed while the plan of the trade {id:?} was unfinished on the same address"
            );
            return Err(self.loan_violation(key, "one plan", &what));
        }
        let now = self.time.instant();
        let unfinished = book
            .slots
            .of(key)
            .any(|(_, slot)| slot.kind == Kind::Approve && !slot.may_have_receipt(&now));
        if step.kind == Kind::Loan && unfinished {
            let what = "the supply was signed before its allowance was mined";
            return Err(self.loan_violation(key, "plan order", what));
        }
        Ok(())
    }

    /// Returns the loan whose plan is unfinished on this address.
    pub(crate) fn unfinished_loan(
        &self,
        chain: u64,
        from: &str,
        except: Option<u64>,
    ) -> Option<u64> {
        let book = &self.loans.book;
        let here = |key: u64| book.slots.of(key).any(|((c, f, _), _)| *c == chain && f == from);
        let others = book.recs.iter().filter(|(key, _)| Some(**key) != except && here(**key));
        others.filter(|(key, rec)| !self.loan_is_over(**key, rec)).map(|(key, _)| *key).next()
    }

    /// Returns whether a plan may be over: nothing is in flight, and its allowance is used or revoked.
    fn loan_is_over(&self, key: u64, rec: &LoanRecord) -> bool {
        let slots = || self.loans.book.slots.of(key).map(|(_, slot)| slot);
        if slots().any(|slot| !slot.is_done() && !slot.is_unsent()) {
            return false;
        }
        // What a freeze, or the end of five minutes, interrupted may be kept.
        let now = self.time.instant();
        let dead = rec.authorizations.iter().all(|auth| auth.killed || has_lapsed(auth, &now));
        // Nothing is signed for a stopped agent, so its revocation waits, and other plans do not wait for it.
        let stopped = self.forbids(rec.actor()).is_some();
        let approved = slots().any(|slot| slot.kind == Kind::Approve && slot.succeeded());
        let used = slots().any(|slot| slot.kind == Kind::Loan && slot.succeeded());
        let revoked = slots().any(|slot| {
            (slot.kind == Kind::Revoke && slot.succeeded()) || slot.is_reverted_revocation()
        });
        dead || stopped || !approved || used || revoked
    }
}
