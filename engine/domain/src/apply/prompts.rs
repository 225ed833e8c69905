//! Payments from the address of a device: their wait, their prompts and how they end.

use std::sync::Arc;

use bursar_core::card::Lane;
use bursar_core::ids::RequestId;
use bursar_core::time::Utc;
use bursar_x402::authorization::Authorization;
use bursar_x402::signature::Signature65;

use super::{allowances, payments, requests};
use crate::approver::Approver;
use crate::assets::ForeignAsset;
use crate::deadline::Deadline;
use crate::event::{Entry, RequestDraft};
use crate::prompts::{DeviceTurn, Prompt, WaitEnd};
use crate::requests::{Request, Status};
use crate::state::State;

/// Returns the status of a payment that waits until the device is ready.
pub(super) fn awaiting_device_status(by: Approver, at: Utc, until: &Deadline) -> Status {
    Status::AwaitingDevice(Box::new(DeviceTurn { by, at, until: until.clone(), prompt: None }))
}

/// Adds a payment that the policy allowed and that waits for its device.
pub(super) fn add_awaiting(
    state: &mut State,
    entry: &Entry,
    asked: &RequestDraft,
    until: &Deadline,
) -> Arc<Request> {
    let status = awaiting_device_status(Approver::Policy, entry.at, until);
    let request = requests::receive(state, entry, asked, status);
    insert(state, request)
}

/// Moves an approved payment from the operator's queue to the queue of the devices.
pub(super) fn approve(
    state: &mut State,
    id: &RequestId,
    asset: Option<&ForeignAsset>,
    status: Status,
) -> Option<Arc<Request>> {
    let mut request = payments::release(state, id, asset)?;
    request.status = status;
    Some(insert(state, request))
}

fn insert(state: &mut State, request: Request) -> Arc<Request> {
    let request = Arc::new(request);
    allowances::reserve(state, &request.agent, Lane::Payment, request.ask.usd());
    Arc::make_mut(&mut state.waiting).insert(request.id, Arc::clone(&request));
    request
}

/// Counts a prompt of `terms`, or of the terms of an earlier prompt if they may have been signed.
pub(super) fn count_prompt(
    state: &mut State,
    id: &RequestId,
    terms: &Authorization,
    at: Utc,
) -> Option<Arc<Request>> {
    change(state, id, |turn| {
        turn.prompt = turn.prompt.take().filter(|prompt| prompt.count > 0);
        let first = Prompt { terms: terms.clone(), at, count: 0 };
        let prompt = turn.prompt.get_or_insert(first);
        prompt.count = prompt.count.saturating_add(1);
    })
}

/// Removes a prompt from the count because the device did not accept it.
pub(super) fn uncount_prompt(state: &mut State, id: &RequestId) -> Option<Arc<Request>> {
    change(state, id, |turn| {
        if let Some(prompt) = &mut turn.prompt {
            prompt.count = prompt.count.saturating_sub(1);
        }
    })
}

/// Authorizes the terms that the device signed.
pub(super) fn sign(
    state: &mut State,
    id: &RequestId,
    signature: &Signature65,
    at: Utc,
) -> Option<Arc<Request>> {
    let mut request = (*Arc::make_mut(&mut state.waiting).remove(id)?).clone();
    let Status::AwaitingDevice(turn) = &request.status else { return None };
    let (by, terms) = (turn.by, turn.shown_prompt()?.terms.clone());
    allowances::unreserve(state, &request.agent, Lane::Payment, request.ask.usd());
    request.status = Status::Authorized { terms, at, by, signature: Some(*signature) };
    Some(payments::spend(state, request))
}

/// Ends a wait without a signature.
pub(super) fn end(
    state: &mut State,
    id: &RequestId,
    end: WaitEnd,
    at: Utc,
    told_until: &Deadline,
) -> Option<Arc<Request>> {
    // If this was the only prompt, the person's refusal shows that its terms were never signed.
    if end == WaitEnd::Refused {
        change(state, id, |turn| {
            turn.prompt = turn.prompt.take().filter(|prompt| prompt.count > 1);
        });
    }
    requests::end(state, id, Status::NotSigned { end, at, repeatable_until: told_until.clone() })
}

/// Releases the reserved value of an ended request, whose terms can no longer be redeemed.
pub(super) fn lapse(state: &mut State, id: &RequestId) {
    if let Some(lapsed) = Arc::make_mut(&mut state.unanswered).remove(id) {
        allowances::unreserve(state, &lapsed.agent, Lane::Payment, lapsed.ask.usd());
    }
}

fn change(
    state: &mut State,
    id: &RequestId,
    change: impl FnOnce(&mut DeviceTurn),
) -> Option<Arc<Request>> {
    let slot = Arc::make_mut(&mut state.waiting).get_mut(id)?;
    if let Status::AwaitingDevice(turn) = &mut Arc::make_mut(slot).status {
        change(turn);
    }
    Some(Arc::clone(slot))
}
