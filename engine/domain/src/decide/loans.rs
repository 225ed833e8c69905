//! Loans: the verdict on a request, and on a fresh measurement before each signature of its plan.

use bursar_core::codes::Code;
use bursar_core::money::{Atoms, Usd};

use super::intake::Intake;
use crate::agents::Agent;
use crate::approver::Approver;
use crate::assess::Verdict;
use crate::assess::lending::{LoanContext, assess};
use crate::command::Command;
use crate::loan_context::{Lender, check_current, context};
use crate::loans::{LoanAsk, LoanQuote};
use crate::plan::Execution;
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;

/// Applies the policy to a new loan.
///
/// # Errors
/// `BUSY` if the measurement is too old to judge by.
pub(super) fn verdict(
    intake: &Intake<'_>,
    agent: &Agent,
    loan: &LoanAsk,
) -> Result<Verdict, Refusal> {
    check_current(intake.state, intake.from, loan, &loan.quote)?;
    Ok(assess_loan(intake, agent, loan))
}

fn assess_loan(intake: &Intake<'_>, agent: &Agent, loan: &LoanAsk) -> Verdict {
    let Intake { state, command, from, policy, queue, .. } = *intake;
    let lender = Lender { agent, from, request: None, started: None };
    let subject = (loan, &loan.quote);
    assess(&LoanContext {
        held_by_agent: queue.count_of_agent,
        held_in_all: queue.count_in_all,
        ..context(state, &command.moment, command.trusted, lender, policy, subject)
    })
}

/// Applies the policy to a new loan that the lane refused. A refusal by the policy takes precedence.
///
/// # Errors
/// `BUSY` if the measurement is too old to judge by.
pub(super) fn refused_verdict(
    intake: &Intake<'_>,
    agent: &Agent,
    loan: &LoanAsk,
    refusal: &Refusal,
) -> Result<Verdict, Refusal> {
    // A loan that the lane could not measure has no measurement whose age could be checked.
    let verdict = if loan.quote.is_measured() {
        verdict(intake, agent, loan)?
    } else {
        assess_loan(intake, agent, loan)
    };
    Ok(match verdict {
        // These two codes only reflect the missing simulation or measurement. The lane's refusal contains the reason.
        Verdict::Refuse(rule) if !matches!(rule.code, Code::WouldFail | Code::QuoteFailed) => {
            Verdict::Refuse(rule)
        }
        Verdict::Act | Verdict::Hold(_) | Verdict::Refuse(_) => Verdict::Refuse(refusal.clone()),
    })
}

/// Returns the least output, which is zero for a loan, and the value that counts against the ceiling.
pub(super) fn floor_and_counted_value(loan: &LoanAsk, quote: &LoanQuote) -> (Atoms, Usd) {
    (Atoms::default(), loan.counted_value_at(quote))
}

/// Applies the policy to a fresh measurement, before the next signature for the loan.
pub(super) fn still_allowed(
    state: &State,
    command: &Command,
    request: &Request,
    (loan, execution): (&LoanAsk, &Execution),
    quote: &LoanQuote,
) -> Result<(), Refusal> {
    let gone = || Refusal::new(Code::AgentNotCommissioned);
    let agent = state.agents.get(&request.agent).ok_or_else(gone)?;
    let policy = state.policy_of(agent).ok_or_else(gone)?;
    let lender = Lender {
        agent,
        from: request.from,
        request: Some(request.id),
        started: Some(execution.started),
    };
    let subject = (loan, quote);
    let verdict =
        assess(&context(state, &command.moment, command.trusted, lender, policy, subject));
    match (verdict, execution.by) {
        (Verdict::Refuse(refusal), _any) => Err(refusal),
        (Verdict::Hold(reason), Approver::Policy) => Err(Refusal::because(
            Code::RequestNoLongerValid,
            format!(
                "The loan was stopped because it now needs the operator's approval: {}. Send it again.",
                reason.sentence()
            ),
        )),
        (Verdict::Act, _) | (Verdict::Hold(_), Approver::Operator(_)) => Ok(()),
    }
}
