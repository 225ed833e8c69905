//! Finds wrong answers to `POST /position`: an acceptance against the policy, a withdrawal refused for money, or a
//! refusal that no state of the wallet explains.

use crate::expect::OpenCall;
use crate::lending::{Loan, LoanAction, LoanState};
use crate::plans::{OpenPlan, PlanState};
use crate::{Auditor, Violation};

/// The codes of refusals for money. A withdrawal never gets one.
const MONEY_CODES: [&str; 4] =
    ["PER_DEPOSIT_EXCEEDED", "EXPOSURE_EXCEEDED", "EXPOSURE_UNREADABLE", "DAILY_OPS_EXCEEDED"];

/// The only failure code after which the caller may repeat the request.
const ILLIQUID_CODE: &str = "INSUFFICIENT_LIQUIDITY";

/// Returns the rule that a wrong refusal with this code breaks.
fn rule_of(code: &str) -> Option<&'static str> {
    match code {
        "DEFI_DISABLED" => Some("lending off"),
        "PER_DEPOSIT_EXCEEDED" => Some("per deposit"),
        "DAILY_OPS_EXCEEDED" => Some("operations"),
        "EXPOSURE_UNREADABLE" => Some("exposure unread"),
        "EXPOSURE_EXCEEDED" => Some("I-d"),
        "VENUE_NOT_PERMITTED" => Some("trust"),
        "TOO_MANY_PENDING" => Some("refusals"),
        _ => None,
    }
}

impl Auditor {
    /// Checks that a loan was rightly accepted.
    pub(super) fn check_loan_acceptance(
        &self,
        call: &OpenPlan<Loan>,
        state: &LoanState,
    ) -> Result<(), Violation> {
        let key = call.rec;
        let automatic = self.loans.book.records.get(&key).is_some_and(|rec| rec.may_be_automatic);
        if self.loans.book.has_begun(key) && automatic {
            // The wallet decided before the first step of the plan, and that step was judged when it was signed.
            return Ok(());
        }
        let verdicts = self.loan_verdicts(key, call.seq, &call.snapshots);
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

    /// Checks that a new loan was rightly refused, in the cases that the specification defines.
    ///
    /// If the reservations of unfinished loans do not explain a refusal for the ceiling, the wallet did not free a
    /// reservation.
    pub(super) fn check_loan_refusal(
        &self,
        open: &OpenCall,
        call: &OpenPlan<Loan>,
        codes: &[&str],
    ) -> Result<(), Violation> {
        let key = call.rec;
        if call.ask.terms.action == LoanAction::Withdraw {
            self.check_money_refusal(key, codes)?;
        }
        if self.disk_failed.is_some() {
            return Ok(());
        }
        let verdicts = self.loan_verdicts(key, call.seq, &call.snapshots);
        for code in codes {
            let Some(rule) = rule_of(code) else { continue };
            if !verdicts.iter().any(|verdict| verdict.codes.contains(code)) {
                let states = call.snapshots.len();
                let what = format!(
                    "it was refused with {code}, which none of {states} states explains (isolated: {})",
                    open.is_isolated
                );
                return Err(self.loan_violation(key, rule, &what));
            }
        }
        Ok(())
    }

    /// Checks that a withdrawal is not refused for money.
    pub(super) fn check_money_refusal(&self, key: u64, codes: &[&str]) -> Result<(), Violation> {
        let rec = self.loans.book.records.get(&key);
        if rec.is_none_or(|rec| rec.terms.action == LoanAction::Supply) {
            return Ok(());
        }
        match codes.iter().find(|code| MONEY_CODES.contains(code)) {
            Some(code) => {
                let what = format!("a withdrawal was refused for money: {code}");
                Err(self.loan_violation(key, "withdrawals", &what))
            }
            None => Ok(()),
        }
    }

    /// Checks that a failure is retryable if and only if the venue lacks liquidity.
    pub(super) fn check_retryable(&self, key: u64, state: &LoanState) -> Result<(), Violation> {
        let (LoanState::Rejected { retryable, .. } | LoanState::Failed { retryable, .. }) = state
        else {
            return Ok(());
        };
        if *retryable == state.codes().contains(&ILLIQUID_CODE) {
            return Ok(());
        }
        let what = format!("{state:?}: retryable is for {ILLIQUID_CODE}, and for nothing else");
        Err(self.loan_violation(key, "answers", &what))
    }
}
