//! Bounds on the gas that plans pay: the failed plans of a day are counted, and trade fees count in the daily volume.
//!
//! A plan fails if it is a trade or a supply, signed a transaction, and ended without a successful main transaction.
//! Its value returns to the allowance, so only the number of failed plans is bounded. Withdrawals are not counted: no
//! bound may keep money in a venue.

use alloy_primitives::U256;
use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::limits::FAILED_PLANS_PER_DAY_MAX;
use bursar_core::money::Usd;
use bursar_core::networks::NATIVE_DECIMALS;
use bursar_core::time::Moment;
use bursar_submit::Outcome;

use crate::agents::Agent;
use crate::approver::Approver;
use crate::plan::{Execution, ExecutionEnd, PlanStep, outbox_key};
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// Value counted for the fee of a trade whose quote contains no price of ETH.
const FEE_WITHOUT_PRICE: Usd = Usd::dollars(1);

/// Returns whether an agent may have used up its failed plans of the day, so that a new plan needs the operator.
///
/// A plan in flight that has signed a transaction counts too, because it may still fail. The plan `own` does not
/// count.
pub(crate) fn failures_are_used_up(
    state: &State,
    agent: &Agent,
    ask: &LaneAsk,
    moment: &Moment,
    own: Option<RequestId>,
) -> bool {
    if !pays_input(ask) {
        return false;
    }
    let failed = agent.failed_plans.count_on(moment.utc.max(state.clock));
    let running = state.executing.values().filter(|request| {
        request.agent == agent.id && Some(request.id) != own && pays_input(&request.ask)
    });
    let signed = running.filter(|request| {
        request.execution().is_some_and(|one| one.end.is_none() && has_signed(state, request, one))
    });
    let signed = u32::try_from(signed.count()).unwrap_or(u32::MAX);
    failed.saturating_add(signed) >= FAILED_PLANS_PER_DAY_MAX
}

/// Refuses the first transaction of a plan that no person approved, if its failure could exceed the daily bound.
///
/// # Errors
/// The request needs the operator now.
pub(crate) fn check_failures(
    state: &State,
    moment: &Moment,
    request: &Request,
    execution: &Execution,
) -> Result<(), Refusal> {
    // If the plan has already paid for gas, it is better to let it finish.
    if execution.by != Approver::Policy || has_signed(state, request, execution) {
        return Ok(());
    }
    let agent = state.agents.get(&request.agent).ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    if failures_are_used_up(state, agent, &request.ask, moment, Some(request.id)) {
        return Err(Refusal::because(
            Code::RequestNoLongerValid,
            format!(
                "The request was stopped because it now needs the operator's approval: {}. Send it again.",
                HoldReason::FailedPlans.sentence()
            ),
        ));
    }
    Ok(())
}

/// Returns whether a plan has ended and counts as failed.
pub(crate) fn has_failed(state: &State, request: &Request) -> bool {
    let Some(execution) = request.execution() else { return false };
    let is_executed = matches!(execution.end, None | Some(ExecutionEnd::Executed { .. }));
    let took_effect = execution
        .main_step()
        .is_some_and(|step| matches!(step.outcome, Some(Outcome::Succeeded { .. })));
    pays_input(&request.ask)
        && !is_executed
        && !took_effect
        && has_signed(state, request, execution)
}

/// Returns the value of a trade's gas fee that counts in the daily volume; `None` in other lanes.
///
/// `fee` is the amount in wei that the receipts show. Without it, the worst cost that was measured at the request
/// counts. A node reports the fee, so it counts no more than the volume of a day.
pub(crate) fn fee_counted(state: &State, request: &Request, fee: Option<U256>) -> Option<Usd> {
    let (trade, execution) = (request.trade()?, request.execution()?);
    let Some(price) = execution.quote.trade()?.native_price else {
        return Some(FEE_WITHOUT_PRICE);
    };
    let agent = state.agents.get(&request.agent);
    let policy = agent.and_then(|agent| state.policy_of(agent));
    let most = policy.map_or(Usd::ZERO, |policy| policy.trading.daily);
    Some(wei_to_usd(fee.unwrap_or(trade.quote.plan_cost), price).min(most))
}

/// Converts wei to dollars, rounded up to a millionth of a dollar.
fn wei_to_usd(wei: U256, price: Usd) -> Usd {
    let one = U256::from(10).saturating_pow(U256::from(NATIVE_DECIMALS));
    let micros = wei.saturating_mul(U256::from(price.0)).div_ceil(one);
    Usd(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// Returns whether the plan of a request spends an input, in a swap or in a deposit.
fn pays_input(ask: &LaneAsk) -> bool {
    match ask {
        LaneAsk::Payment(_) => false,
        LaneAsk::Trade(_) => true,
        LaneAsk::Loan(loan) => loan.is_supply(),
    }
}

fn has_signed(state: &State, request: &Request, execution: &Execution) -> bool {
    execution.steps.iter().any(|step| is_signed(state, request, step))
}

fn is_signed(state: &State, request: &Request, step: &PlanStep) -> bool {
    match step.outcome {
        Some(
            Outcome::Succeeded { .. }
            | Outcome::Reverted { .. }
            | Outcome::Cancelled { .. }
            | Outcome::NonceTaken,
        ) => true,
        Some(Outcome::Dropped) => false,
        None => {
            let outbox = state.outboxes.get(&outbox_key(request.ask.chain(), request.from));
            outbox.open.get(&step.submission).is_some_and(|one| one.is_signed())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fee_is_rounded_up() {
        let eth = |wei: u128, price| wei_to_usd(U256::from(wei), Usd::dollars(price));
        assert_eq!(eth(0, 3_000), Usd::ZERO);
        assert_eq!(eth(1, 3_000), Usd(1));
        assert_eq!(eth(1_000_000_000_000_000, 3_000), Usd::dollars(3));
        assert_eq!(wei_to_usd(U256::MAX, Usd(u64::MAX)), Usd(u64::MAX));
    }
}
