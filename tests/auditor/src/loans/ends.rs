//! The end of a run: every loan has ended, and every allowance is as it was before its plan (rule I-s).

use crate::loan_book::LoanRecord;
use crate::trade_book::Authorization;
use crate::trade_slots::Kind;
use crate::trades::authority::UNSIGNED_MS;
use crate::{Auditor, Violation};

/// In the calm phase, every loan must end within this time (30 minutes).
const ENDS_WITHIN_MS: i64 = 1_800_000;

/// In the calm phase, the allowance of an ended loan must be revoked within this time (10 minutes).
const REVOKED_WITHIN_MS: i64 = 600_000;

impl Auditor {
    /// At the end: every loan has ended, and every allowance is as it was.
    pub(crate) fn check_loans_over(&self) -> Result<(), Violation> {
        let Some(calm) = self.calm else { return Ok(()) };
        // While the wallet is locked, it answers that loans are executing.
        let open = self.running && self.possible_configs.iter().all(|w| w.config.open);
        for (key, rec) in &self.loans.book.recs {
            let polled = rec.last_poll.and_then(|at| calm.elapsed(&at).1);
            if open && polled.is_some_and(|ms| ms >= ENDS_WITHIN_MS) {
                let what = "it has no end 30 minutes after the last fault";
                return Err(self.loan_violation(*key, "I-n", what));
            }
            self.check_loan_allowances(*key, rec)?;
        }
        Ok(())
    }

    /// Checks that a plan left no allowance behind.
    fn check_loan_allowances(&self, key: u64, rec: &LoanRecord) -> Result<(), Violation> {
        let Some(baseline) = &rec.baseline else { return Ok(()) };
        let slots = || self.loans.book.slots.of(key);
        // What a freeze, lock, suspension or the five minutes interrupted may be kept, and shown.
        let supplied = self.loans.book.main_of(key).is_some();
        let late = |auth: &Authorization| {
            let times = auth.closed.zip(rec.ended);
            let took = times.and_then(|(closed, ended)| closed.elapsed(&ended).1);
            !supplied && took.is_none_or(|ms| ms >= UNSIGNED_MS)
        };
        let interrupted = rec.authorizations.iter().all(|auth| auth.killed || late(auth));
        let approved = || slots().filter(|(_, s)| s.kind == Kind::Approve && s.succeeded());
        let Some((at, allowance)) = approved().next() else { return Ok(()) };
        // The revocation is the last step of the plan, and may follow the reported end.
        let now = self.time.instant();
        let since_end = rec.ended.and_then(|at| at.elapsed(&now).1);
        let over = since_end.is_some_and(|ms| ms >= REVOKED_WITHIN_MS);
        // Nothing is signed for a stopped agent, so its revocation waits for the operator.
        let stopped = self.forbids(rec.actor()).is_some();
        let reverted = slots().any(|(_, s)| s.is_reverted_revocation());
        if interrupted || stopped || reverted || !over || self.loan_is_followed(key) {
            return Ok(());
        }
        let (token, spender) = (&allowance.body.0, allowance.body.2.get(32..72));
        let open = self.trades.book.allowances.get(&(at.0, at.1.clone()));
        let left = open.into_iter().flatten().find(|open| {
            let before = baseline.iter().any(|b| {
                (&b.token, &b.spender, b.permit2) == (&open.token, &open.spender, open.permit2)
                    && b.amount >= open.amount
            });
            let same = open.token.eq_ignore_ascii_case(token)
                && open.spender.trim_start_matches("0x").to_lowercase()
                    == spender.unwrap_or_default();
            !open.permit2 && same && !before
        });
        match left {
            Some(open) => {
                let what = format!("its plan left the allowance {open:?}");
                Err(self.loan_violation(key, "I-s", &what))
            }
            None => Ok(()),
        }
    }

    /// Returns whether another loan of the same address has set the same allowance since.
    fn loan_is_followed(&self, key: u64) -> bool {
        let approvals = |key: u64| {
            let slots = self.loans.book.slots.of(key);
            let all = slots.filter(|(_, slot)| slot.kind == Kind::Approve && slot.succeeded());
            all.map(|((chain, from, nonce), slot)| {
                // The token, and the function with its spender.
                let spender = slot.body.2.get(..72).unwrap_or_default();
                (*chain, from, (&slot.body.0, spender), *nonce)
            })
        };
        let Some(last) = approvals(key).max_by_key(|one| one.3) else { return false };
        let others = self.loans.book.recs.keys().filter(|other| **other != key);
        others.flat_map(|other| approvals(*other)).any(|other| {
            (other.0, other.1, other.2) == (last.0, last.1, last.2) && other.3 > last.3
        })
    }
}
