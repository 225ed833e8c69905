//! Who may sign a step of a loan, and when: approvals, automatic execution, and fresh readings behind each.

use super::Reason;
use super::judge::Verdict;
use crate::clocks::Instant;
use crate::config::PossibleConfig;
use crate::lending::LoanState;
use crate::loan_book::LoanRecord;
use crate::trade_book::Authorization;
use crate::trades::authority::has_surely_lapsed;
use crate::{Auditor, Violation};

impl Auditor {
    /// Checks that a new step of a loan may be signed now. Returns whether its signature is void.
    ///
    /// A slow signer may finish after the end of the plan. Such a signature must never be broadcast.
    pub(super) fn check_loan_authority(&self, key: u64) -> Result<bool, Violation> {
        let Some(rec) = self.loans.book.recs.get(&key) else { return Ok(false) };
        if let Some(rule) = self.forbids(rec.actor()) {
            let what = "a step was signed, but nothing may be signed for the agent";
            return Err(self.loan_violation(key, rule, what));
        }
        if !self.may_still_lend(rec) {
            // A slow signer may finish after lending or the network was turned off.
            return Ok(true);
        }
        let now = self.time.instant();
        // What was written before a crash continues after the restart, within its five minutes.
        let alive = |auth: &&Authorization| !auth.killed || auth.lost.is_some();
        let mut living = rec.authorizations.iter().filter(alive).peekable();
        if living.peek().is_none() {
            let (rule, what) = if rec.denied() {
                ("approvals", "a step was signed after the operator had denied the loan")
            } else if rec.authorizations.is_empty() {
                ("approvals", "a step was signed before an approval")
            } else {
                ("T-53", "a step was signed that a freeze, lock or suspension had ended")
            };
            return Err(self.loan_violation(key, rule, what));
        }
        if matches!(rec.end, Some(LoanState::Executed { .. })) {
            let what = "a step was signed after the loan had ended";
            return Err(self.loan_violation(key, "I-p", what));
        }
        let in_time: Vec<&Authorization> =
            living.filter(|auth| !has_surely_lapsed(auth, &now)).collect();
        let ended = rec.refused.is_some() || (rec.end.is_some() && !rec.soft_end);
        if in_time.is_empty() || ended {
            return Ok(true);
        }
        self.check_loan_permission(key, rec, &in_time, &now).map(|()| false)
    }

    fn may_still_lend(&self, rec: &LoanRecord) -> bool {
        let chain = rec.loan.chain;
        let allows = |w: &PossibleConfig| {
            let on = w.config.networks.get(&chain).is_some_and(|n| n.on);
            let policy = w.config.policy_of(&rec.agent).map(|(_, p)| p);
            on && policy.is_some_and(|p| {
                let networks = p.policy.networks.as_ref();
                p.lending.enabled && networks.is_none_or(|n| n.contains(&chain))
            })
        };
        rec.by_operator() || self.possible_configs.iter().any(allows)
    }

    fn check_loan_permission(
        &self,
        key: u64,
        rec: &LoanRecord,
        in_time: &[&Authorization],
        now: &Instant,
    ) -> Result<(), Violation> {
        if rec.by_operator() {
            return Ok(());
        }
        let approvals: Vec<&&Authorization> = in_time.iter().filter(|a| !a.by_call).collect();
        if approvals.is_empty() {
            return self.check_automatic_loan(key, rec);
        }
        if approvals.iter().all(|auth| rec.expired(&auth.opened).0) {
            let what =
                format!("a step was signed at {now:?} although the approval came after 15 minutes");
            return Err(self.loan_violation(key, "I-e", &what));
        }
        if self.loans.book.begun(key) {
            return Ok(());
        }
        // An approval applies today's policy to fresh readings. Only holds are the operator's to lift.
        let mut why: Option<Reason> = None;
        for auth in approvals {
            let verdicts = self.loan_verdicts(key, auth.ticket, auth.seq);
            if verdicts.iter().any(|verdict| verdict.must_refuse.is_none()) {
                return Ok(());
            }
            why = verdicts.iter().find_map(|verdict| verdict.must_refuse).or(why);
        }
        let (rule, why) = why.unwrap_or(("approvals", "the agent has no policy"));
        let what = format!("a step was signed after the approval, but {why}");
        Err(self.loan_violation(key, rule, &what))
    }

    /// Checks that a loan which nobody approved may be executed.
    fn check_automatic_loan(&self, key: u64, rec: &LoanRecord) -> Result<(), Violation> {
        if rec.automatic {
            return Ok(());
        }
        let mut why = rec.not_automatic;
        for (ticket, open) in self.loans.open.iter().filter(|(_, open)| open.rec == key) {
            let verdicts = self.loan_verdicts(key, *ticket, open.seq);
            if verdicts.iter().any(|verdict: &Verdict| verdict.must_hold.is_none()) {
                return Ok(());
            }
            why = verdicts.iter().find_map(|verdict| verdict.must_hold).or(why);
        }
        let (rule, why) = why.unwrap_or(("must ask", "no state of the wallet allows it"));
        let what = format!("it was executed without asking, but {why}");
        Err(self.loan_violation(key, rule, &what))
    }
}
