//! Payments from the address of a device: their wait, their prompts and how they end.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::time::Moment;
use bursar_x402::signature::{Signature65, recover};

use super::payments;
use crate::approval::{fresh_verdict, may_work};
use crate::command::{Command, Requote};
use crate::deadline::Deadline;
use crate::decision::{Decision, Effect, Reply, require_sealed};
use crate::due::{renewal_if_due, unattended_day_if_due};
use crate::event::Event;
use crate::prompts::{DeviceTurn, WaitEnd};
use crate::refusal::Refusal;
use crate::requests::Request;
use crate::state::State;

/// Fixes the terms of a payment whose device is ready, or repeats those of an earlier prompt.
///
/// # Errors
/// Nothing may be signed now. A refusal that ends the request is a reply instead, together with the event.
pub(super) fn prompt(
    state: &State,
    command: &Command,
    id: RequestId,
    nonce: [u8; 32],
) -> Result<Decision, Refusal> {
    let (request, turn) = may_be_signed(state, command, id)?;
    if let Some(over) = wait_end_if_over(request, &command.moment) {
        return Ok(Decision::reply(vec![over], Reply::Refused(WaitEnd::TooLate.code().into())));
    }
    let (mut events, verdict) =
        fresh_verdict(state, &command.moment, command.trusted, request, &Requote::Nothing);
    if let Err(refusal) = verdict {
        events.push(Event::RequestRejected { id, refusal: refusal.clone() });
        return Ok(Decision::reply(events, Reply::Refused(refusal)));
    }
    let terms = match (turn.shown_prompt(), request.ask.payment()) {
        (Some(prompt), _any) => prompt.terms.clone(),
        (None, Some(payment)) => payments::terms(request.from, payment, &command.moment, nonce)?,
        (None, None) => return Err(Refusal::new(Code::InternalError)),
    };
    events.push(Event::PaymentPrompted { id, terms });
    Ok(Decision { events, effects: vec![Effect::Sign(id)], reply: Reply::Request(id) })
}

/// Records that the device did not accept the prompt.
pub(super) fn fail(state: &State, command: &Command, id: RequestId) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    check_prompted(state, id)?;
    Ok(Decision::reply(vec![Event::PromptFailed { id }], Reply::Request(id)))
}

/// Ends a payment that a person refused on the device.
pub(super) fn refuse(state: &State, command: &Command, id: RequestId) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    check_prompted(state, id)?;
    Ok(Decision::reply(
        vec![wait_ended_event(id, WaitEnd::Refused, &command.moment)],
        Reply::Request(id),
    ))
}

/// Records the device's signature. A signature for an ended request, a stopped agent or other terms is discarded.
pub(super) fn accept(
    state: &State,
    command: &Command,
    id: RequestId,
    signature: &Signature65,
) -> Result<Decision, Refusal> {
    let (request, turn) = may_be_signed(state, command, id)?;
    let digest = request.digest().ok_or(Refusal::new(Code::RequestNotFound))?;
    if recover(digest, signature).ok() != Some(request.from) {
        return Err(Refusal::new(Code::LedgerError));
    }
    // The agent may already have received the answer that the wait is over.
    if request.is_wait_over(&command.moment) || turn.shown_prompt().is_none() {
        return Err(Refusal::new(Code::PaymentExpired));
    }
    // Value that is spent now counts in the allowance of this moment.
    let mut events: Vec<Event> =
        unattended_day_if_due(state, &command.moment).into_iter().collect();
    if let Some(agent) = state.agents.get(&request.agent)
        && let Some(commission) = &agent.commission
    {
        events.extend(renewal_if_due(agent, commission, &command.moment).0);
    }
    events.push(Event::SignedOnDevice { id, signature: *signature });
    Ok(Decision::reply(events, Reply::Request(id)))
}

/// Returns the events that end overdue waits. A locked wallet records them too, because agents receive their results.
pub(super) fn ended_waits(state: &State, moment: &Moment) -> Vec<Event> {
    state.waiting.values().filter_map(|request| wait_end_if_over(request, moment)).collect()
}

/// Returns the events that release the value of terms that can no longer be redeemed. The caller has checked that the
/// wallet is unlocked.
pub(super) fn lapsed_events(state: &State, moment: &Moment) -> Vec<Event> {
    state.lapsed_at(moment).map(|request| Event::PaymentLapsed { id: request.id }).collect()
}

/// Ends every wait: the operator accepted the journal, but not its undecided payments.
pub(super) fn reject_all(state: &State, code: Code) -> Vec<Event> {
    let all = state.waiting.keys();
    all.map(|id| Event::RequestRejected { id: *id, refusal: code.into() }).collect()
}

/// Returns the event that ends a wait, if it is over.
pub(super) fn wait_end_if_over(request: &Request, moment: &Moment) -> Option<Event> {
    request.is_wait_over(moment).then(|| wait_ended_event(request.id, WaitEnd::TooLate, moment))
}

fn wait_ended_event(id: RequestId, end: WaitEnd, moment: &Moment) -> Event {
    Event::DeviceWaitEnded { id, end, repeatable_until: Deadline::after(moment) }
}

fn may_be_signed<'a>(
    state: &'a State,
    command: &Command,
    id: RequestId,
) -> Result<(&'a Arc<Request>, &'a DeviceTurn), Refusal> {
    require_sealed(command)?;
    let (request, turn) = waiting_request(state, id)?;
    let agent = state.agents.get(&request.agent).ok_or(Refusal::new(Code::AgentNotCommissioned))?;
    may_work(state, agent)?;
    Ok((request, turn))
}

fn waiting_request(state: &State, id: RequestId) -> Result<(&Arc<Request>, &DeviceTurn), Refusal> {
    let request = state.waiting.get(&id);
    let turn = request.and_then(|request| request.device_turn());
    request.zip(turn).ok_or(Refusal::new(Code::RequestNotFound))
}

fn check_prompted(state: &State, id: RequestId) -> Result<(), Refusal> {
    let (_request, turn) = waiting_request(state, id)?;
    turn.shown_prompt().map(|_any| ()).ok_or(Refusal::new(Code::RequestNotFound))
}
