//! Requests of every lane: received, held, refused, released and ended.

use std::sync::Arc;

use bursar_core::card::{HoldReason, Lane};
use bursar_core::ids::RequestId;

use super::{agents, allowances};
use crate::deadline::Deadline;
use crate::event::{Entry, RequestDraft};
use crate::refusal::Refusal;
use crate::requests::{LaneAsk, Request, Status};
use crate::state::State;

/// Returns a new request, and counts it in the usage of its agent.
pub(super) fn receive(
    state: &mut State,
    entry: &Entry,
    asked: &RequestDraft,
    status: Status,
) -> Request {
    let padding = asked.ask.padding();
    agents::change(state, &asked.agent, |agent| agent.usage.count(entry.at, padding));
    Request {
        id: asked.id,
        seq: entry.seq,
        agent: asked.agent.clone(),
        created: entry.at,
        label: asked.label.clone(),
        from: asked.from,
        ask: asked.ask.clone(),
        identity: asked.identity.clone(),
        status,
        mandate: None,
    }
}

/// Adds a request to the operator's queue, and reserves its value.
pub(super) fn hold(
    state: &mut State,
    entry: &Entry,
    asked: &RequestDraft,
    reason: HoldReason,
    deadline: &Deadline,
) -> Arc<Request> {
    let status = Status::Held { reason, deadline: deadline.clone() };
    let held = Arc::new(receive(state, entry, asked, status));
    allowances::reserve(state, &asked.agent, asked.ask.lane(), asked.ask.usd());
    if let LaneAsk::Loan(loan) = &asked.ask {
        Arc::make_mut(&mut state.loans).note_quote(loan, &loan.quote);
    }
    Arc::make_mut(&mut state.held).insert(asked.id, Arc::clone(&held));
    held
}

/// Counts a refused request.
pub(super) fn refuse(
    state: &mut State,
    entry: &Entry,
    asked: &RequestDraft,
    refusal: &Refusal,
) -> Arc<Request> {
    let status = Status::Refused { refusal: refusal.clone(), at: entry.at, was_held: false };
    let refused = receive(state, entry, asked, status);
    agents::change(state, &asked.agent, |agent| agent.refusals.count(entry.at));
    if let LaneAsk::Loan(loan) = &asked.ask {
        Arc::make_mut(&mut state.loans).note_refused(loan);
    }
    Arc::new(refused)
}

/// Takes a request out of the queue of the operator or of the devices.
///
/// Also releases its reservation, except while terms that a device may have signed can still be redeemed.
pub(super) fn release(state: &mut State, id: &RequestId) -> Option<Request> {
    if let Some(request) = Arc::make_mut(&mut state.waiting).remove(id) {
        if request.terms().is_some() {
            Arc::make_mut(&mut state.unanswered).insert(*id, Arc::clone(&request));
        } else {
            allowances::unreserve(state, &request.agent, Lane::Payment, request.ask.usd());
        }
        return Some((*request).clone());
    }
    let request = Arc::make_mut(&mut state.held).remove(id)?;
    allowances::unreserve(state, &request.agent, request.ask.lane(), request.ask.usd());
    Some((*request).clone())
}

/// Ends a request without an authorization.
pub(super) fn end(state: &mut State, id: &RequestId, status: Status) -> Option<Arc<Request>> {
    let mut request = release(state, id)?;
    request.status = status;
    Some(Arc::new(request))
}
