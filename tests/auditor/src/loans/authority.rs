//! Who may sign a step of a loan: it needs an approval or automatic execution, and fresh readings.

use super::LoanRecord;
use super::Reason;
use super::judge::Verdict;
use crate::plans::Authorization;
use crate::{Auditor, Violation};

impl Auditor {
    pub(super) fn check_loan_permission(
        &self,
        key: u64,
        rec: &LoanRecord,
        in_time: &[&Authorization],
    ) -> Result<(), Violation> {
        if rec.by_operator() {
            return Ok(());
        }
        let approvals: Vec<&&Authorization> = in_time.iter().filter(|a| !a.by_call).collect();
        if approvals.is_empty() {
            return self.check_automatic_loan(key, rec);
        }
        if approvals.iter().all(|auth| rec.expired(&auth.opened).0) {
            let now = self.time.instant();
            let what =
                format!("a step was signed at {now:?} although the approval came after 15 minutes");
            return Err(self.loan_violation(key, "I-e", &what));
        }
        if self.loans.book.has_begun(key) {
            return Ok(());
        }
        // For an approval, the wallet applies the current policy to fresh readings. An approval can lift holds, but not
        // refusals.
        let mut why: Option<Reason> = None;
        for auth in approvals {
            let snapshots = self.loans.snapshots.get(&auth.ticket).map_or(&[][..], Vec::as_slice);
            let verdicts = self.loan_verdicts(key, auth.seq, snapshots);
            if verdicts.iter().any(|verdict| verdict.must_refuse.is_none()) {
                return Ok(());
            }
            why = verdicts.iter().find_map(|verdict| verdict.must_refuse).or(why);
        }
        let (rule, why) = why.unwrap_or(("approvals", "the agent has no policy"));
        let what = format!("a step was signed after the approval, but {why}");
        Err(self.loan_violation(key, rule, &what))
    }

    /// Checks that a loan without an approval may be executed.
    fn check_automatic_loan(&self, key: u64, rec: &LoanRecord) -> Result<(), Violation> {
        if rec.may_be_automatic {
            return Ok(());
        }
        let mut why = rec.not_automatic;
        for call in self.loans.book.open.values().filter(|call| call.rec == key) {
            let verdicts = self.loan_verdicts(key, call.seq, &call.snapshots);
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
