//! The steps of plans.
//!
//! A plan is a sequence of transactions: allowances, the main transaction, and the revocation of an allowance that a
//! failed plan leaves. The lane orders each step with a fresh measurement, and the policy is applied again. One plan
//! runs at a time for each address and network, so no plan uses or overwrites the allowance of another.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_submit::{Input, Outcome};

use super::plans::{check_stops, end_events, may_sign, plan_deadline, with_cause};
use super::unattended::check_unattended;
use super::{loans, outboxes, trades};
use crate::command::{Approval, Command, StepOrder};
use crate::decision::{Decision, Reply, require_sealed};
use crate::event::Event;
use crate::gas;
use crate::lines::is_acting;
use crate::loan_context::check_current;
use crate::plan::{Execution, ExecutionEnd, Quote, StepPurpose, outbox_key, submission_id};
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// Returns the event that records the approval of a trade or loan. The caller has applied the policy to the current
/// measurement.
///
/// # Errors
/// There is no measurement, or it belongs to another lane.
pub(super) fn approval_event(
    state: &State,
    command: &Command,
    request: &Request,
    approval: &Approval,
) -> Result<Event, Refusal> {
    let missing = || Refusal::new(Code::QuoteFailed);
    let quote = approval.quote.plan().ok_or_else(missing)?;
    let agent = state.agents.get(&request.agent);
    let policy = agent.and_then(|agent| state.policy_of(agent)).ok_or_else(missing)?;
    let (floor, counted) = match (&request.ask, quote) {
        (LaneAsk::Trade(trade), Quote::Trade(quote)) => {
            trades::floor_and_counted_value(trade, quote, policy)
        }
        (LaneAsk::Loan(loan), Quote::Loan(quote)) => loans::floor_and_counted_value(loan, quote),
        (LaneAsk::Payment(_) | LaneAsk::Trade(_) | LaneAsk::Loan(_), _) => return Err(missing()),
    };
    Ok(Event::ExecutionApproved {
        id: request.id,
        by: approval.by,
        until: plan_deadline(&command.moment),
        quote: quote.clone(),
        floor,
        counted_value: counted,
    })
}

/// Opens the next transaction of a plan if measurement and policy still allow it. Otherwise ends the request.
pub(super) fn open_step(
    state: &State,
    command: &Command,
    order: &StepOrder,
) -> Result<Decision, Refusal> {
    let (request, plan) = acting_plan(state, command, order.id, order.index)?;
    if order.purpose != StepPurpose::Revocation {
        check_continues(plan)?;
        if let (LaneAsk::Loan(loan), Quote::Loan(quote)) = (&request.ask, &order.quote) {
            check_current(state, request.from, loan, quote)?;
        }
        let allowed = check_first_allowance(plan, order.purpose)
            .and_then(|()| still_allowed(state, command, request, plan, &order.quote));
        if let Err(refusal) = allowed {
            let refusal = with_cause(state, request, refusal);
            let events = end_events(request, plan, ExecutionEnd::Rejected(refusal));
            return Ok(Decision::reply(events, Reply::Request(request.id)));
        }
    }
    let open = Input::Open {
        id: submission_id(request.id, order.index),
        call: order.call.clone(),
        ceiling: order.gas_price_max,
        until: order.until,
    };
    let key = outbox_key(request.ask.chain(), request.from);
    let mut decision = outboxes::apply_input(state, command, &key, &open)?;
    let quote = order.quote.clone();
    decision.events.insert(0, Event::StepOpened { id: request.id, purpose: order.purpose, quote });
    decision.reply = Reply::Request(request.id);
    Ok(decision)
}

/// Checks that the plan has not given this allowance before.
///
/// A token that did not keep one allowance would lose the next one too, and each costs gas.
fn check_first_allowance(execution: &Execution, purpose: StepPurpose) -> Result<(), Refusal> {
    let repeats = !purpose.is_main()
        && execution.steps.iter().any(|step| {
            step.purpose == purpose && matches!(step.outcome, Some(Outcome::Succeeded { .. }))
        });
    if !repeats {
        return Ok(());
    }
    let message = "The token did not keep its approval, so nothing more was sent.";
    Err(Refusal::because(Code::WouldFail, message))
}

/// Checks that the main transaction is not opened yet and the request has not ended.
pub(super) fn check_continues(execution: &Execution) -> Result<(), Refusal> {
    if execution.end.is_some() || execution.main_step().is_some() {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    Ok(())
}

/// Applies the time limit and the policy to a fresh measurement, before the next signature for the main transaction.
fn still_allowed(
    state: &State,
    command: &Command,
    request: &Request,
    execution: &Execution,
    quote: &Quote,
) -> Result<(), Refusal> {
    // The conditions are the same for an allowance, a permit and the main transaction.
    may_sign(state, command, request, execution, true)?;
    check_unattended(state, command, request, execution, quote.value())?;
    gas::check_failures(state, &command.moment, request, execution)?;
    match (&request.ask, quote) {
        (LaneAsk::Trade(trade), Quote::Trade(quote)) => {
            trades::still_allowed(state, command, request, (trade, execution), quote)
        }
        (LaneAsk::Loan(loan), Quote::Loan(quote)) => {
            loans::still_allowed(state, command, request, (loan, execution), quote)
        }
        (LaneAsk::Payment(_) | LaneAsk::Trade(_) | LaneAsk::Loan(_), _) => {
            Err(Refusal::new(Code::QuoteFailed))
        }
    }
}

/// Returns the plan that may take its next step now.
///
/// # Errors
/// The wallet is locked or its journal untrusted, `index` is not the number of the plan's steps, a step is open, the
/// agent is stopped, or another plan of the address and network acts first.
pub(super) fn acting_plan<'a>(
    state: &'a State,
    command: &Command,
    id: RequestId,
    index: usize,
) -> Result<(&'a Request, &'a Execution), Refusal> {
    require_sealed(command)?;
    let request = state.executing.get(&id).ok_or(Refusal::new(Code::RequestNotFound))?;
    let execution = request.execution().ok_or(Refusal::new(Code::RequestNotFound))?;
    if execution.steps.len() != index || execution.open_step().is_some() {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    check_stops(state, request)?;
    if !is_acting(state, request) {
        return Err(Refusal::new(Code::Busy));
    }
    Ok((request, execution))
}
