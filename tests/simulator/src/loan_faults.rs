//! Planted bugs of loans: they change the inputs of the rules.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::policy::LendingPolicy;
use bursar_domain::loan_context::operations;
use bursar_domain::{Action, Command, LaneAsk, Refusal, State};

use crate::faults::PlantedBug;

/// Changes the input of a decision.
///
/// # Errors
/// The refusal of a bug that refuses too much.
pub(crate) fn change_input(
    plant: PlantedBug,
    state: &mut State,
    command: &Command,
) -> Result<(), Refusal> {
    match plant {
        PlantedBug::CeilingIgnored => change_policies(state, |lending| {
            lending.max_total.0 = lending.max_total.0.saturating_mul(1_000);
            lending.max_share = None;
        }),
        PlantedBug::DepositUnlimited => change_policies(state, |lending| {
            lending.max_deposit.0 = lending.max_deposit.0.saturating_mul(1_000);
        }),
        PlantedBug::UntrustedVenue => {
            change_policies(state, |lending| lending.curated_only = false);
        }
        PlantedBug::ComingLoansForgotten => forget_others(state, command),
        PlantedBug::WithdrawalLimited => return limit_withdrawal(state, command),
        _other => {}
    }
    Ok(())
}

fn change_policies(state: &mut State, change: impl Fn(&mut LendingPolicy)) {
    for record in Arc::make_mut(&mut state.policies).values_mut() {
        change(&mut Arc::make_mut(record).policy.lending);
    }
}

/// Removes all loans but the one that is judged.
fn forget_others(state: &mut State, command: &Command) {
    let own = match &command.action {
        Action::Ask(ask) if matches!(ask.ask, LaneAsk::Loan(_)) => None,
        Action::OpenStep(order) => Some(order.id),
        Action::Approve(approval) => Some(approval.id),
        _other => return,
    };
    let is_kept = |id: &RequestId| Some(*id) == own;
    Arc::make_mut(&mut state.held).retain(|id, one| is_kept(id) || one.loan().is_none());
    Arc::make_mut(&mut state.executing).retain(|id, one| is_kept(id) || one.loan().is_none());
}

fn limit_withdrawal(state: &State, command: &Command) -> Result<(), Refusal> {
    let Action::Ask(ask) = &command.action else { return Ok(()) };
    let LaneAsk::Loan(loan) = &ask.ask else { return Ok(()) };
    let agent = state.agents.get(&ask.agent).filter(|_agent| !loan.supplies());
    let Some(policy) = agent.and_then(|agent| state.policy_of(agent)) else { return Ok(()) };
    let done = agent.map_or(0, |agent| operations(state, &command.moment, agent, None));
    if done < policy.lending.operations_per_day {
        return Ok(());
    }
    Err(Refusal::new(Code::DailyOpsExceeded))
}
