//! The plans of allowed trades and loans: what may be signed, and how steps, requests and plans end.

use alloy_primitives::U256;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::Usd;
use bursar_core::time::Moment;
use bursar_submit::{
    Declines, Event as OutboxEvent, Kind, Outbox, OutboxKey, Outcome, SubmissionId,
    no_further_offers,
};

use super::unattended::check_unattended;
use crate::approval::may_work;
use crate::command::Command;
use crate::deadline::Deadline;
use crate::decision::{Decision, Reply, require_sealed};
use crate::due::{renewal_if_due, unattended_day_if_due};
use crate::event::Event;
use crate::gas;
use crate::plan::{Execution, ExecutionEnd, PLAN_MS, Quote, StepPurpose, Volume, outbox_key};
use crate::prompts::WaitEnd;
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request};
use crate::state::State;

/// Returns the moment at which a plan that is allowed now must stop signing.
pub(super) fn plan_deadline(moment: &Moment) -> Deadline {
    Deadline::in_ms(moment, PLAN_MS)
}

/// Checks that the agent of the request is not suspended and that the agents are not frozen.
///
/// The check accepts a deleted agent, because its revocations may still be signed.
///
/// # Errors
/// The reason why nothing may be signed for the agent.
pub(super) fn check_stops(state: &State, request: &Request) -> Result<(), Refusal> {
    if state.frozen.is_some() {
        return Err(Refusal::new(Code::AgentsFrozen));
    }
    match state.agents.get(&request.agent) {
        Some(agent) => may_work(state, agent).map(|_commission| ()),
        None => Ok(()),
    }
}

/// Checks whether a transaction of this plan may be signed at this moment.
///
/// `executes` is false for a revocation, which only requires that the agent is not stopped.
///
/// # Errors
/// The agent is stopped, its policy or the operator's settings no longer allow the request, or it was allowed too long
/// ago.
pub(super) fn may_sign(
    state: &State,
    command: &Command,
    request: &Request,
    execution: &Execution,
    executes: bool,
) -> Result<(), Refusal> {
    check_stops(state, request)?;
    if !executes {
        return Ok(());
    }
    let agent = state.agents.get(&request.agent);
    let policy = agent.and_then(|agent| state.policy_of(agent));
    let policy = policy.ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    if execution.is_late(&command.moment) {
        return Err(Refusal::new(Code::PlanExpired));
    }
    let (is_on, off) = match &request.ask {
        LaneAsk::Trade(_) => (policy.trading.enabled, Code::TradingDisabled),
        LaneAsk::Loan(_) => (policy.lending.enabled, Code::DefiDisabled),
        LaneAsk::Payment(_) => return Err(Refusal::new(Code::RequestNotFound)),
    };
    if !is_on {
        return Err(Refusal::new(off));
    }
    if !state.is_network_enabled(request.ask.chain()) {
        return Err(Refusal::new(Code::NetworkDisabled));
    }
    if !policy.networks.allows(request.ask.chain()) {
        return Err(Refusal::new(Code::NetworkNotAllowed));
    }
    check_unattended(state, command, request, execution, None)?;
    match &execution.quote {
        Quote::Trade(quote)
            if quote.value_in.is_some_and(|value| value > policy.trading.per_trade) =>
        {
            Err(Refusal::new(Code::ExceedsPerTradeMax))
        }
        Quote::Loan(_) if execution.counted_value > policy.lending.max_deposit => {
            Err(Refusal::new(Code::PerDepositExceeded))
        }
        Quote::Trade(_) | Quote::Loan(_) => Ok(()),
    }
}

/// Stops the plans of an outbox whose open transaction may no longer be signed.
///
/// An empty transaction may still replace a signed one to free the nonce.
pub(super) fn stop_forbidden(state: &State, command: &Command, key: &OutboxKey) -> Vec<Event> {
    let of_outbox = state
        .executing
        .values()
        .filter(|request| outbox_key(request.ask.chain(), request.from) == *key);
    let stopped = of_outbox.flat_map(|request| {
        signing_refusal(state, command, request)
            .map(|refusal| with_cause(state, request, refusal))
            .map(|refusal| stop_one(state, request, &refusal, Declines::Call))
            .unwrap_or_default()
    });
    stopped.collect()
}

/// Returns whether the rules of the plan that owns a submission forbid to sign its unsigned attempt now.
///
/// An empty transaction is forbidden only while the agent is stopped. For the plan's own call, all rules of the plan
/// apply.
pub(super) fn is_forbidden(
    state: &State,
    command: &Command,
    outbox: &Outbox,
    id: SubmissionId,
) -> bool {
    let owner = state.executing.values().find(|request| {
        let step = request.execution().and_then(Execution::open_step);
        step.is_some_and(|step| step.submission == id)
    });
    let Some(owner) = owner else { return false };
    let unsigned = outbox.open.get(&id).and_then(|one| one.unsigned_attempt());
    match unsigned.map(|(_attempt, tried)| tried.kind) {
        Some(Kind::Empty { .. }) => check_stops(state, owner).is_err(),
        Some(Kind::Call) | None => signing_refusal(state, command, owner).is_some(),
    }
}

fn signing_refusal(state: &State, command: &Command, request: &Request) -> Option<Refusal> {
    let execution = request.execution()?;
    let step = execution.open_step()?;
    let executes = step.purpose != StepPurpose::Revocation;
    may_sign(state, command, request, execution, executes).err()
}

/// Ends a request that the lane cannot continue, or one whose main transaction is final.
pub(super) fn end(
    state: &State,
    command: &Command,
    id: RequestId,
    steps: usize,
    end: &ExecutionEnd,
    fee: Option<U256>,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let request = state.executing.get(&id).ok_or(Refusal::new(Code::RequestNotFound))?;
    let execution = request.execution().ok_or(Refusal::new(Code::RequestNotFound))?;
    let stale = execution.steps.len() != steps || execution.open_step().is_some();
    if stale || execution.end.is_some() {
        return Err(Refusal::new(Code::AlreadyDecided));
    }
    // Only the receipt of a successful main transaction shows which amounts moved.
    let succeeded = execution
        .main_step()
        .is_some_and(|step| matches!(step.outcome, Some(Outcome::Succeeded { .. })));
    if matches!(end, ExecutionEnd::Executed { .. }) && !succeeded {
        return Err(Refusal::new(Code::InternalError));
    }
    let mut events = Vec::new();
    if matches!(end, ExecutionEnd::Executed { .. })
        && let Some(fee) = gas::fee_counted(state, request, fee).filter(|fee| *fee > Usd::ZERO)
    {
        events.extend(agent_renewal_if_due(state, request, &command.moment));
        events.push(Event::TradeFeeCounted { id, fee });
    }
    events.extend(end_events(request, execution, end.clone()));
    Ok(Decision::reply(events, Reply::Request(id)))
}

/// Returns the renewal of the agent's allowance if it is due, so that a plan's spending counts in the new allowance.
fn agent_renewal_if_due(state: &State, request: &Request, moment: &Moment) -> Vec<Event> {
    let agent = state.agents.get(&request.agent);
    let given = agent.and_then(|agent| Some((agent, agent.commission.as_ref()?)));
    given.map_or(Vec::new(), |(agent, given)| renewal_if_due(agent, given, moment).0)
}

/// Ends the plan of an ended request, because no token allowance is left.
///
/// # Errors
/// The wallet is locked or its journal untrusted: no seal would cover the entry.
pub(super) fn close(state: &State, command: &Command, id: RequestId) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let idle = state
        .executing
        .get(&id)
        .and_then(|request| request.execution())
        .is_some_and(|execution| execution.end.is_some() && execution.open_step().is_none());
    Ok(Decision::done(if idle { vec![Event::PlanClosed { id }] } else { Vec::new() }))
}

/// Returns the event that ends a request, and the one that closes its plan if nothing is left to do.
pub(super) fn end_events(
    request: &Request,
    execution: &Execution,
    end: ExecutionEnd,
) -> Vec<Event> {
    let mut after = execution.clone();
    after.end_request(end.clone());
    let mut events = vec![Event::ExecutionEnded { id: request.id, end }];
    events.extend(after.is_over().then_some(Event::PlanClosed { id: request.id }));
    events
}

/// Returns the events of the plan that owns a finished submission: those to record before and after its end.
///
/// `stopped` are the events of the same decision that stopped plans. `unsigned` is the reason why a device did not
/// sign a dropped transaction.
pub(super) fn step_finished(
    state: &State,
    moment: &Moment,
    stopped: &[Event],
    unsigned: Option<WaitEnd>,
    (id, outcome): (SubmissionId, Outcome),
) -> (Vec<Event>, Vec<Event>) {
    let owner = state.executing.values().find_map(|request| {
        let execution = request.execution()?;
        let step = execution.open_step().filter(|step| step.submission == id)?;
        Some((request, execution, step.purpose))
    });
    let Some((request, execution, purpose)) = owner else { return (Vec::new(), Vec::new()) };
    let mut after = execution.clone();
    let stopped_as = stopped.iter().find_map(|event| {
        let Event::ExecutionEnded { id, end } = event else { return None };
        (*id == request.id).then_some(end)
    });
    if let Some(end) = stopped_as {
        after.end_request(end.clone());
    }
    after.end_step(outcome);
    let mut renewals = Vec::new();
    // Volume that becomes spent now counts in the allowance of this moment.
    if after.volume == Volume::Spent {
        renewals.extend(unattended_day_if_due(state, moment));
        renewals.extend(agent_renewal_if_due(state, request, moment));
    }
    let mut events = vec![Event::StepEnded { id: request.id, outcome }];
    if after.end.is_none()
        && let Some(end) = end_after(purpose, outcome, unsigned)
    {
        after.end_request(end.clone());
        events.push(Event::ExecutionEnded { id: request.id, end });
    }
    // If the person refuses the revocation on the device, the allowance stays and the device shows no further prompt.
    let keeps_allowance = purpose == StepPurpose::Revocation
        && outcome == Outcome::Dropped
        && unsigned == Some(WaitEnd::Refused);
    let is_over = after.is_over() || keeps_allowance;
    events.extend(is_over.then_some(Event::PlanClosed { id: request.id }));
    (renewals, events)
}

/// Returns how a request ends after a step; `None` if it continues.
///
/// A successful main transaction does not end the request here: the lane first reads from the receipt which amounts
/// moved.
fn end_after(
    purpose: StepPurpose,
    outcome: Outcome,
    unsigned: Option<WaitEnd>,
) -> Option<ExecutionEnd> {
    let failed = |sentence: &str, hash| ExecutionEnd::Failed {
        refusal: Refusal::because(Code::ExecutionError, sentence),
        hash,
    };
    let is_main = purpose.is_main();
    match outcome {
        Outcome::Succeeded { .. } => None,
        Outcome::Reverted { hash, .. } if is_main => {
            let sentence =
                format!("The {} was reverted: nothing moved, and gas was paid.", purpose.text());
            Some(failed(&sentence, Some(hash)))
        }
        Outcome::Reverted { hash, .. } => {
            Some(failed("The token's approval was reverted: nothing moved.", Some(hash)))
        }
        Outcome::Dropped => Some(ExecutionEnd::Rejected(
            unsigned.map_or(Refusal::new(Code::PlanExpired), WaitEnd::refusal),
        )),
        Outcome::Cancelled { .. } => Some(ExecutionEnd::Rejected(Refusal::new(Code::PlanExpired))),
        Outcome::NonceTaken => Some(failed(
            "Another transaction of this address replaced this one, and what it did is not known.",
            None,
        )),
    }
}

/// Stops the plans that `which` selects: drops their unsigned transactions and ends their requests.
///
/// A signed transaction is only watched, because it may be mined in any case.
pub(super) fn stop(
    state: &State,
    command: &Command,
    which: impl Fn(&Request) -> bool,
    code: Code,
) -> Vec<Event> {
    // A locked wallet signs nothing; the next unlock stops the plans that must not continue.
    if !command.unlocked || !command.trusted {
        return Vec::new();
    }
    let stopped = state.executing.values().filter(|request| which(request));
    stopped
        .flat_map(|request| stop_one(state, request, &Refusal::new(code), declines(state, request)))
        .collect()
}

/// Stops every plan.
pub(super) fn stop_all(state: &State, code: Code) -> Vec<Event> {
    let running = state.executing.values();
    running
        .flat_map(|request| stop_one(state, request, &Refusal::new(code), declines(state, request)))
        .collect()
}

/// Returns which unsigned transactions a stop declines.
///
/// On a device, a stop does not decline the empty transaction that replaces a late call, because its prompt could not
/// be shown again. While the agent is stopped, nothing is signed, and the stop voids the open prompt.
fn declines(state: &State, request: &Request) -> Declines {
    if state.is_on_device(request.from) { Declines::Call } else { Declines::Any }
}

/// Ends a plan that waits for its device, because the operator denied it. If the plan's request has already ended, its
/// token allowance remains.
///
/// # Errors
/// A transaction of the plan was signed too late, or no seal would cover the entry because the wallet is locked or its
/// journal untrusted.
pub(super) fn deny(
    state: &State,
    command: &Command,
    request: &Request,
    reason: Option<&String>,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    if state.awaits_empty_transaction(request) {
        let message = "A transaction of this request was signed too late. Sign the empty transaction on the Ledger, so that the late \
                       one cannot take effect.";
        return Err(Refusal::because(Code::AlreadyDecided, message));
    }
    let message = match reason {
        Some(reason) => format!("The operator denied the request: {reason}"),
        None => "The operator denied the request.".to_owned(),
    };
    let refusal = Refusal::because(Code::RequestDenied, message);
    let mut events = stop_one(state, request, &refusal, Declines::Call);
    let is_closed = events.iter().any(|event| matches!(event, Event::PlanClosed { .. }));
    if !request.is_running() && !is_closed {
        events.push(Event::PlanClosed { id: request.id });
    }
    Ok(Decision::reply(events, Reply::Request(request.id)))
}

/// Returns the refusal with its cause: if a device did not sign before the plan expired, the person was too late.
pub(super) fn with_cause(state: &State, request: &Request, refusal: Refusal) -> Refusal {
    if refusal.code == Code::PlanExpired && state.is_unsigned_at_device(request) {
        WaitEnd::TooLate.refusal()
    } else {
        refusal
    }
}

fn stop_one(state: &State, request: &Request, refusal: &Refusal, declines: Declines) -> Vec<Event> {
    let Some(execution) = request.execution() else { return Vec::new() };
    let mut events = Vec::new();
    let mut after = execution.clone();
    let mut main_may_happen = execution.main_step().is_some();
    if let Some(step) = execution.open_step() {
        let key = outbox_key(request.ask.chain(), request.from);
        let outbox = state.outboxes.get(&key);
        match outbox.open.get(&step.submission) {
            Some(one) if one.is_signed() && one.is_genuine(&key) => {
                events.extend(
                    no_further_offers(step.submission, one, declines)
                        .into_iter()
                        .map(|event| Event::Outbox { key, event }),
                );
            }
            _unsigned => {
                let (id, outcome) = (step.submission, Outcome::Dropped);
                after.end_step(outcome);
                let event = OutboxEvent::Finished { id, outcome };
                events.push(Event::Outbox { key, event });
                events.push(Event::StepEnded { id: request.id, outcome });
                main_may_happen = false;
            }
        }
    }
    if after.end.is_none() && !main_may_happen {
        events.extend(end_events(request, &after, ExecutionEnd::Rejected(refusal.clone())));
    } else if after.is_over() {
        events.push(Event::PlanClosed { id: request.id });
    }
    events
}

/// Stops, at an unlock, the plans of frozen or suspended agents and those that were allowed too long ago.
pub(super) fn stop_idle(state: &State, command: &Command) -> Vec<Event> {
    let mut events = stop_overdue(state, &command.moment);
    let overdue = |request: &Request| is_overdue(request, &command.moment);
    for request in state.executing.values().filter(|request| !overdue(request)) {
        let agent = state.agents.get(&request.agent);
        let refusal = agent.map_or(Some(Refusal::new(Code::AgentNotCommissioned)), |agent| {
            may_work(state, agent).err()
        });
        events.extend(
            refusal
                .iter()
                .flat_map(|refusal| stop_one(state, request, refusal, declines(state, request))),
        );
    }
    events
}

/// Stops the plans that were allowed too long ago. The caller has checked that the wallet is unlocked.
pub(super) fn stop_overdue(state: &State, moment: &Moment) -> Vec<Event> {
    let late = state.executing.values().filter(|request| is_overdue(request, moment));
    late.flat_map(|request| {
        let refusal = with_cause(state, request, Refusal::new(Code::PlanExpired));
        stop_one(state, request, &refusal, Declines::Call)
    })
    .collect()
}

/// Returns whether a plan was allowed too long ago to continue. A revocation has no time limit.
fn is_overdue(request: &Request, moment: &Moment) -> bool {
    request.execution().is_some_and(|execution| {
        let open = execution.open_step();
        let revokes = open.is_some_and(|step| step.purpose == StepPurpose::Revocation);
        execution.is_late(moment) && !revokes
    })
}
