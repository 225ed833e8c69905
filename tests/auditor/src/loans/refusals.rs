//! Which refusals are wrong: a withdrawal for money, or a reason that no state of the wallet explains.

use super::OpenLoan;
use crate::basics::Ticket;
use crate::expect::OpenCall;
use crate::lending::{LoanAction, LoanState};
use crate::{Auditor, Violation};

/// The codes of refusals for money. A withdrawal never gets one.
const MONEY: [&str; 4] =
    ["PER_DEPOSIT_EXCEEDED", "EXPOSURE_EXCEEDED", "EXPOSURE_UNREADABLE", "DAILY_OPS_EXCEEDED"];

/// The only code of a failure that may be repeated.
const NOT_LIQUID: &str = "INSUFFICIENT_LIQUIDITY";

/// Returns `code` and `reason_code` of a state.
pub(super) fn codes_of(state: &LoanState) -> Vec<&str> {
    let all = match state {
        LoanState::Rejected { code, reason_code, .. } => [code.as_deref(), reason_code.as_deref()],
        LoanState::Failed { code, .. } => [code.as_deref(), None],
        LoanState::Pending | LoanState::Executing | LoanState::Executed { .. } => [None, None],
    };
    all.into_iter().flatten().collect()
}

pub(super) fn journal_failed(state: &LoanState) -> bool {
    codes_of(state).contains(&"JOURNAL_FAILED")
}

/// Checks that a failure is retryable exactly if the venue lacks liquidity.
pub(super) fn check_retryable(state: &LoanState) -> Result<(), String> {
    let (LoanState::Rejected { retryable, .. } | LoanState::Failed { retryable, .. }) = state
    else {
        return Ok(());
    };
    let not_liquid = codes_of(state).contains(&NOT_LIQUID);
    if *retryable == not_liquid {
        return Ok(());
    }
    Err(format!("{state:?}: retryable is for {NOT_LIQUID}, and for nothing else"))
}

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
    /// Checks that a new loan was rightly refused, where the specification is definite.
    ///
    /// A refusal for the ceiling that the reservations of living loans do not explain shows a reservation that did not
    /// return.
    pub(super) fn check_loan_refusal(
        &self,
        ticket: Ticket,
        open: &OpenCall,
        call: &OpenLoan,
        codes: &[&str],
    ) -> Result<(), Violation> {
        let key = call.rec;
        if call.ask.loan.action == LoanAction::Withdraw {
            self.check_money_refusal(key, codes)?;
        }
        if self.disk_failed.is_some() {
            return Ok(());
        }
        let verdicts = self.loan_verdicts(key, ticket, call.seq);
        for code in codes {
            let Some(rule) = rule_of(code) else { continue };
            if !verdicts.iter().any(|verdict| verdict.codes.contains(code)) {
                let states = self.loans.snapshots.get(&ticket).map_or(0, Vec::len);
                let what = format!(
                    "it was refused with {code}, which none of {states} states explains (isolated: {})",
                    open.isolated
                );
                return Err(self.loan_violation(key, rule, &what));
            }
        }
        Ok(())
    }

    /// Checks that a withdrawal is not refused for money.
    pub(super) fn check_money_refusal(&self, key: u64, codes: &[&str]) -> Result<(), Violation> {
        let rec = self.loans.book.recs.get(&key);
        if rec.is_none_or(|rec| rec.loan.action == LoanAction::Supply) {
            return Ok(());
        }
        match codes.iter().find(|code| MONEY.contains(code)) {
            Some(code) => {
                let what = format!("a withdrawal was refused for money: {code}");
                Err(self.loan_violation(key, "withdrawals", &what))
            }
            None => Ok(()),
        }
    }
}
