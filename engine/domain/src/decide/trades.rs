//! Trades: the verdict on a request, and the steps of its plan.
//!
//! A plan is a row of transactions: allowances, the swap, and the revocation of what a failed plan leaves. The lane
//! orders each step with fresh prices, and the policy is applied again. One plan runs at a time for each address and
//! network, so no plan uses or overwrites the allowance of another.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::time::Moment;
use bursar_submit::{Event as OutboxEvent, Input, Outcome, SubmissionId};

use super::outboxes;
use super::requests::Intake;
use crate::approval::{check_floor, may_work};
use crate::assess::trading::{self, TradeContext};
use crate::assess::{Verdict, clock_is_off};
use crate::command::{Approval, Command, StepOrder};
use crate::decision::{Decision, Reply, require_unlocked};
use crate::event::Event;
use crate::refusal::Refusal;
use crate::requests::{Approver, Deadline, Request};
use crate::state::State;
use crate::trades::{
    Execution, PLAN_MS, StepPurpose, TradeAsk, TradeEnd, outbox_key, submission_id,
};

/// Applies the policy to a new trade.
pub(super) fn verdict(intake: &Intake<'_>, trade: &TradeAsk) -> Verdict {
    let Intake { state, command, from, policy, spent, queue } = *intake;
    trading::assess(&TradeContext {
        ask: trade,
        quote: &trade.quote,
        policy,
        network_enabled: state.network_enabled(trade.chain),
        trusted: command.trusted,
        clock_off: clock_is_off(&command.moment),
        now: u64::try_from(command.moment.utc.seconds()).unwrap_or(0),
        promised: state.promised(from, trade.chain, trade.token_in.address),
        spent: spent.trade,
        reserved: queue.reserved.trade,
        held_by_agent: queue.by_agent,
        held_in_all: queue.in_all,
    })
}

/// Returns when a plan that is allowed now stops signing.
pub(super) fn plan_deadline(moment: &Moment) -> Deadline {
    Deadline::in_ms(moment, PLAN_MS)
}

/// Returns the event of an approval. The caller has applied the policy to the current prices.
pub(super) fn approved(
    state: &State,
    command: &Command,
    request: &Request,
    trade: &TradeAsk,
    approval: &Approval,
) -> Event {
    let fresh = approval.quote.clone().and_then(Result::ok);
    let quote = fresh.unwrap_or_else(|| Box::new(trade.quote.clone()));
    let agent = state.agents.get(&request.agent);
    let policy = agent.and_then(|agent| state.policy_of(agent));
    Event::TradeApproved {
        id: request.id,
        by: approval.by,
        until: plan_deadline(&command.moment),
        floor: trade.floor(&trade.quote).max(trade.floor(&quote)),
        counted: policy.map_or(trade.counted, |policy| trading::counted(&quote, &policy.trading)),
        quote,
    }
}

/// Opens the next transaction of a plan, if prices and policy still allow it. Otherwise the trade ends.
pub(super) fn open_step(
    state: &State,
    command: &Command,
    order: &StepOrder,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    if !command.trusted {
        return Err(Refusal::new(Code::JournalUntrusted));
    }
    let request = state.executing.get(&order.id).ok_or(Refusal::new(Code::RequestNotFound))?;
    let (Some(trade), Some(execution)) = (request.trade(), request.execution()) else {
        return Err(Refusal::new(Code::RequestNotFound));
    };
    if execution.steps.len() != order.index || execution.open_step().is_some() {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    if first_in_line(state, request).is_some_and(|first| first != request.id) {
        return Err(Refusal::new(Code::Busy));
    }
    let agent = state.agents.get(&request.agent);
    let agent = agent.ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    may_work(state, agent)?;
    if order.purpose != StepPurpose::Revocation {
        if execution.end.is_some() {
            return Err(Refusal::new(Code::AlreadyDecided));
        }
        if let Err(refusal) = still_allowed(state, command, request, trade, execution, order) {
            let events = ended(request, execution, TradeEnd::Rejected(refusal));
            return Ok(Decision::reply(events, Reply::Request(request.id)));
        }
    }
    let open = Input::Open {
        id: submission_id(request.id, order.index),
        call: order.call.clone(),
        ceiling: order.ceiling,
        until: order.until,
    };
    let key = outbox_key(trade.chain, request.from);
    let mut decision = outboxes::apply_input(state, command, &key, &open)?;
    let quote = Box::new(order.quote.clone());
    let opened = Event::StepOpened { id: request.id, purpose: order.purpose, quote };
    decision.events.insert(0, opened);
    decision.reply = Reply::Request(request.id);
    Ok(decision)
}

/// Applies time, floor and policy to the fresh prices of a step.
fn still_allowed(
    state: &State,
    command: &Command,
    request: &Request,
    trade: &TradeAsk,
    execution: &Execution,
    order: &StepOrder,
) -> Result<(), Refusal> {
    if execution.until.has_passed(&command.moment) {
        return Err(Refusal::new(Code::PlanExpired));
    }
    check_floor(trade, &order.quote)?;
    if order.quote.out.0 < execution.floor.0 {
        return Err(Refusal::new(Code::PriceMoved));
    }
    let gone = || Refusal::new(Code::AgentNotCommissioned);
    let agent = state.agents.get(&request.agent).ok_or_else(gone)?;
    let policy = state.policy_of(agent).ok_or_else(gone)?;
    let spent = state.spent(agent, &command.moment).trade;
    let verdict = trading::assess(&TradeContext {
        ask: trade,
        quote: &order.quote,
        policy,
        network_enabled: state.network_enabled(trade.chain),
        trusted: command.trusted,
        clock_off: clock_is_off(&command.moment),
        now: u64::try_from(command.moment.utc.seconds()).unwrap_or(0),
        promised: state.promised(request.from, trade.chain, trade.token_in.address),
        spent,
        // Without the plan's own reservation.
        reserved: agent.reserved.trade.left_after(execution.reserved()),
        held_by_agent: 0,
        held_in_all: 0,
    });
    match (verdict, execution.by) {
        (Verdict::Refuse(refusal), _any) => Err(refusal),
        (Verdict::Hold(_), Approver::Policy) => Err(Refusal::because(
            Code::PriceMoved,
            "The price moved so that the trade now needs the operator: request it again.",
        )),
        (Verdict::Act, _) | (Verdict::Hold(_), Approver::Operator(_)) => Ok(()),
    }
}

/// Returns the request whose plan may act now for this address and network: the oldest one.
fn first_in_line(state: &State, request: &Request) -> Option<RequestId> {
    let same_line = |other: &&std::sync::Arc<Request>| {
        other.from == request.from && other.ask.chain() == request.ask.chain()
    };
    let line = state.executing.values().filter(same_line);
    line.min_by_key(|other| other.seq).map(|first| first.id)
}

/// Ends a trade that the lane cannot continue, or whose swap is final.
pub(super) fn end(
    state: &State,
    command: &Command,
    id: RequestId,
    steps: usize,
    end: &TradeEnd,
) -> Result<Decision, Refusal> {
    require_unlocked(command)?;
    let request = state.executing.get(&id).ok_or(Refusal::new(Code::RequestNotFound))?;
    let execution = request.execution().ok_or(Refusal::new(Code::RequestNotFound))?;
    let stale = execution.steps.len() != steps || execution.open_step().is_some();
    if stale || execution.end.is_some() {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    Ok(Decision::reply(ended(request, execution, end.clone()), Reply::Request(id)))
}

/// Ends the plan of an ended trade, because no allowance is left.
pub(super) fn close(state: &State, id: RequestId) -> Decision {
    let idle = state
        .executing
        .get(&id)
        .and_then(|request| request.execution())
        .is_some_and(|execution| execution.end.is_some() && execution.open_step().is_none());
    Decision::done(if idle { vec![Event::PlanClosed { id }] } else { Vec::new() })
}

/// Returns the events of an ended trade, and of its plan if that is over too.
fn ended(request: &Request, execution: &Execution, end: TradeEnd) -> Vec<Event> {
    let mut after = execution.clone();
    after.end_trade(end.clone());
    let mut events = vec![Event::TradeEnded { id: request.id, end }];
    events.extend(after.is_over().then_some(Event::PlanClosed { id: request.id }));
    events
}

/// Returns what the end of a submission means for the plan that owns it.
pub(super) fn step_finished(state: &State, id: SubmissionId, outcome: Outcome) -> Vec<Event> {
    let owner = state.executing.values().find_map(|request| {
        let execution = request.execution()?;
        let step = execution.open_step().filter(|step| step.submission == id)?;
        Some((request, execution, step.purpose))
    });
    let Some((request, execution, purpose)) = owner else { return Vec::new() };
    let mut after = execution.clone();
    after.end_step(outcome);
    let mut events = vec![Event::StepEnded { id: request.id, outcome }];
    if after.end.is_none()
        && let Some(end) = end_after(purpose, outcome)
    {
        after.end_trade(end.clone());
        events.push(Event::TradeEnded { id: request.id, end });
    }
    events.extend(after.is_over().then_some(Event::PlanClosed { id: request.id }));
    events
}

/// Returns how a trade ends after a step; `None` if it continues. The lane reads the fill of a swap that succeeded.
fn end_after(purpose: StepPurpose, outcome: Outcome) -> Option<TradeEnd> {
    let failed = |sentence: &str, hash| TradeEnd::Failed {
        refusal: Refusal::because(Code::ExecutionError, sentence),
        hash,
    };
    let is_swap = purpose == StepPurpose::Swap;
    match outcome {
        Outcome::Succeeded { .. } => None,
        Outcome::Reverted { hash, .. } if is_swap => {
            Some(failed("The swap was reverted: nothing was traded, and gas was paid.", Some(hash)))
        }
        Outcome::Reverted { hash, .. } => {
            Some(failed("The token's approval was reverted: nothing was traded.", Some(hash)))
        }
        Outcome::Cancelled { .. } | Outcome::Dropped => {
            Some(TradeEnd::Rejected(Refusal::new(Code::PlanExpired)))
        }
        Outcome::NonceTaken => Some(failed(
            "Another transaction of this address took the place of the trade's: its effect is unknown.",
            None,
        )),
    }
}

/// Stops the plans of `which`: what is unsigned is dropped, and the trade ends. A signed transaction is only watched,
/// because it may be mined in any case.
pub(super) fn stop(
    state: &State,
    command: &Command,
    which: impl Fn(&Request) -> bool,
    code: Code,
) -> Vec<Event> {
    // A locked wallet signs nothing; the next unlock stops what must not continue.
    if !command.unlocked || !command.trusted {
        return Vec::new();
    }
    let stopped = state.executing.values().filter(|request| which(request));
    stopped.flat_map(|request| stop_one(state, request, &Refusal::new(code))).collect()
}

/// Stops every plan.
pub(super) fn stop_all(state: &State, code: Code) -> Vec<Event> {
    let running = state.executing.values();
    running.flat_map(|request| stop_one(state, request, &Refusal::new(code))).collect()
}

fn stop_one(state: &State, request: &Request, refusal: &Refusal) -> Vec<Event> {
    let Some(execution) = request.execution() else { return Vec::new() };
    if let Some(step) = execution.open_step() {
        let key = outbox_key(request.ask.chain(), request.from);
        let outbox = state.outboxes.get(&key);
        let unsigned = outbox.open.get(&step.submission).is_some_and(|one| !one.is_signed());
        if !unsigned {
            return Vec::new();
        }
        let (id, outcome) = (step.submission, Outcome::Dropped);
        let mut after = execution.clone();
        after.end_step(outcome);
        let dropped = OutboxEvent::Finished { id, outcome };
        let mut events = vec![
            Event::Outbox { key, event: dropped },
            Event::StepEnded { id: request.id, outcome },
        ];
        if after.end.is_none() {
            events.extend(ended(request, &after, TradeEnd::Rejected(refusal.clone())));
        } else if after.is_over() {
            events.push(Event::PlanClosed { id: request.id });
        }
        return events;
    }
    if execution.end.is_some() || execution.swap().is_some() {
        return Vec::new();
    }
    ended(request, execution, TradeEnd::Rejected(refusal.clone()))
}

/// Stops, at an unlock, every plan that must not continue: of frozen or suspended agents, or allowed too long ago.
pub(super) fn stop_idle(state: &State, command: &Command) -> Vec<Event> {
    let mut events = overdue(state, &command.moment);
    let overdue = |request: &Request| is_overdue(request, &command.moment);
    for request in state.executing.values().filter(|request| !overdue(request)) {
        let agent = state.agents.get(&request.agent);
        let refusal = agent.map_or(Some(Refusal::new(Code::AgentNotCommissioned)), |agent| {
            may_work(state, agent).err()
        });
        events.extend(refusal.iter().flat_map(|refusal| stop_one(state, request, refusal)));
    }
    events
}

/// Stops the plans that were allowed too long ago. The caller has checked that the wallet is unlocked.
pub(super) fn overdue(state: &State, moment: &Moment) -> Vec<Event> {
    let late = state.executing.values().filter(|request| is_overdue(request, moment));
    late.flat_map(|request| stop_one(state, request, &Refusal::new(Code::PlanExpired))).collect()
}

fn is_overdue(request: &Request, moment: &Moment) -> bool {
    request.execution().is_some_and(|execution| execution.until.has_passed(moment))
}
