//! Plans of trades and loans: started, approved, executed step by step, ended and closed.

use std::sync::Arc;

use bursar_core::card::Lane;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_core::time::Utc;

use super::{agents, allowances, loans, requests};
use crate::approver::Approver;
use crate::deadline::Deadline;
use crate::event::{Entry, RequestDraft};
use crate::gas;
use crate::plan::{Execution, ExecutionEnd, PlanStep, Quote, StepPurpose, Volume, submission_id};
use crate::requests::{LaneAsk, Request, Status};
use crate::state::State;

/// The measurement with which a plan starts, and the bounds that follow from it.
pub(super) struct PlanMeasurement {
    pub(super) quote: Quote,
    /// The least output that a trade accepts; zero for a loan.
    pub(super) floor: Atoms,
    /// The value that counts against the limit of the lane.
    pub(super) counted_value: Usd,
}

/// Returns a plan that the entry starts.
pub(super) fn new(
    entry: &Entry,
    by: Approver,
    until: &Deadline,
    PlanMeasurement { quote, floor, counted_value: counted }: PlanMeasurement,
) -> Execution {
    Execution {
        by,
        at: entry.at,
        started: entry.seq,
        until: until.clone(),
        quote,
        floor,
        counted_value: counted,
        volume: Volume::Reserved,
        permit: None,
        steps: Vec::new(),
        end: None,
    }
}

/// Starts the plan of a request that the policy allowed.
pub(super) fn start(
    state: &mut State,
    entry: &Entry,
    asked: &RequestDraft,
    until: &Deadline,
) -> Arc<Request> {
    let counted = asked.ask.usd();
    allowances::reserve(state, &asked.agent, asked.ask.lane(), counted);
    // This event never contains a payment, because payments have no plan.
    let planned: Option<(Quote, Atoms)> = match &asked.ask {
        LaneAsk::Trade(trade) => Some((trade.quote.clone().into(), trade.floor(&trade.quote))),
        LaneAsk::Loan(loan) => Some((loan.quote.clone().into(), Atoms::default())),
        LaneAsk::Payment(_) => None,
    };
    let status = match planned {
        Some((quote, floor)) => {
            loans::record_quote(state, &asked.ask, &quote);
            let measured = PlanMeasurement { quote, floor, counted_value: counted };
            Status::Executing(Box::new(new(entry, Approver::Policy, until, measured)))
        }
        None => {
            Status::Refused { refusal: Code::InternalError.into(), at: entry.at, was_held: false }
        }
    };
    let request = requests::receive(state, entry, asked, status);
    execute(state, request)
}

/// Starts the plan of a request that the operator approved.
pub(super) fn approve(
    state: &mut State,
    id: &RequestId,
    execution: Execution,
) -> Option<Arc<Request>> {
    let mut request = requests::release(state, id)?;
    allowances::reserve(state, &request.agent, request.ask.lane(), execution.counted_value);
    loans::record_quote(state, &request.ask, &execution.quote);
    if let (Some(loan), Some(quote)) = (request.loan(), execution.quote.loan()) {
        Arc::make_mut(&mut state.loans).accept_price(loan, quote);
    }
    request.status = Status::Executing(Box::new(execution));
    Some(execute(state, request))
}

fn execute(state: &mut State, request: Request) -> Arc<Request> {
    let request = Arc::new(request);
    Arc::make_mut(&mut state.executing).insert(request.id, Arc::clone(&request));
    request
}

/// Adds a step, whose transaction was opened in the same commit.
pub(super) fn open_step(
    state: &mut State,
    id: &RequestId,
    purpose: StepPurpose,
    quote: &Quote,
) -> Option<Arc<Request>> {
    let changed = change(state, id, |execution| {
        let submission = submission_id(*id, execution.steps.len());
        execution.steps.push(PlanStep { purpose, submission, outcome: None });
        execution.quote = quote.clone();
        if purpose != StepPurpose::Revocation {
            let value = quote.value().unwrap_or(execution.counted_value);
            execution.counted_value = execution.counted_value.max(value);
        }
    })?;
    loans::record_quote(state, &changed.ask, quote);
    Some(changed)
}

/// Ends the request of a plan. A transaction of the plan may still be in flight.
pub(super) fn end(
    state: &mut State,
    id: &RequestId,
    end: &ExecutionEnd,
    at: Utc,
) -> Option<Arc<Request>> {
    let ended = change(state, id, |execution| execution.end_request(end.clone()))?;
    loans::settle(state, &ended, end);
    if gas::has_failed(state, &ended) {
        agents::change(state, &ended.agent, |agent| agent.failed_plans.count(at));
    }
    Some(ended)
}

/// Counts the fee of a trade in the daily volume of its agent.
pub(super) fn count_fee(state: &mut State, id: &RequestId, fee: Usd) {
    let agent = state.executing.get(id).map(|request| request.agent.clone());
    if let Some(agent) = agent {
        allowances::count_volume(state, &agent, Lane::Trade, fee);
    }
}

/// Removes a plan that has nothing left to do.
pub(super) fn close(state: &mut State, id: &RequestId) -> Option<Arc<Request>> {
    let mut request = Arc::make_mut(&mut state.executing).remove(id)?;
    let over = Arc::make_mut(&mut request);
    if let Status::Executing(execution) = over.status.clone() {
        over.status = Status::Ended(execution);
    }
    Some(request)
}

/// Changes an execution. If the change ends its reservation, the value is spent or returned.
pub(super) fn change(
    state: &mut State,
    id: &RequestId,
    change: impl FnOnce(&mut Execution),
) -> Option<Arc<Request>> {
    let slot = Arc::make_mut(&mut state.executing).get_mut(id)?;
    let Status::Executing(execution) = &mut Arc::make_mut(slot).status else { return None };
    let (before, volume_before) = (execution.reserved(), execution.volume);
    change(execution);
    let (after, volume, counted) =
        (execution.reserved(), execution.volume, execution.counted_value);
    let released = before.left_after(after);
    let request = Arc::clone(slot);
    let lane = request.ask.lane();
    allowances::reserve(state, &request.agent, lane, after.left_after(before));
    if released > Usd::ZERO {
        allowances::unreserve(state, &request.agent, lane, released);
        if volume == Volume::Spent {
            allowances::spend(state, &request.agent, lane, released);
        }
    }
    if volume_before == Volume::Reserved
        && volume == Volume::Spent
        && let LaneAsk::Loan(loan) = &request.ask
    {
        allowances::count_operation(state, &request.agent);
        if loan.is_supply() {
            let place = loan.place(request.from);
            Arc::make_mut(&mut state.loans).add_supplied(place, counted, state.seq);
        }
    }
    Some(request)
}
