//! Payments: authorized, signed, and kept until they can no longer be redeemed.

use std::sync::Arc;

use bursar_core::card::Lane;
use bursar_core::ids::RequestId;
use bursar_core::time::Utc;
use bursar_x402::authorization::Authorization;
use bursar_x402::signature::Signature65;

use super::{agents, allowances, requests};
use crate::approver::Approver;
use crate::assets::ForeignAsset;
use crate::event::{Entry, RequestDraft};
use crate::requests::{Request, Status};
use crate::state::State;

/// Returns the status of a payment that is authorized but not signed.
pub(super) fn authorized_status(terms: &Authorization, at: Utc, by: Approver) -> Status {
    Status::Authorized { terms: terms.clone(), at, by, signature: None }
}

/// Adds a payment that the policy allowed.
pub(super) fn authorize(
    state: &mut State,
    entry: &Entry,
    asked: &RequestDraft,
    terms: &Authorization,
) -> Arc<Request> {
    let status = authorized_status(terms, entry.at, Approver::Policy);
    let request = requests::receive(state, entry, asked, status);
    spend(state, request)
}

/// Removes an approved payment from the operator's queue and counts it as spent.
pub(super) fn approve(
    state: &mut State,
    id: &RequestId,
    asset: Option<&ForeignAsset>,
    status: Status,
) -> Option<Arc<Request>> {
    let mut request = release(state, id, asset)?;
    request.status = status;
    Some(spend(state, request))
}

/// Releases a held payment. For a token outside our table, `asset` is the measurement that was approved.
pub(super) fn release(
    state: &mut State,
    id: &RequestId,
    asset: Option<&ForeignAsset>,
) -> Option<Request> {
    let mut request = requests::release(state, id)?;
    if let Some((asset, payment)) = asset.zip(request.ask.payment_mut()) {
        payment.set_asset(asset.clone());
    }
    Some(request)
}

/// Counts an authorized payment as spent, and keeps it until it can no longer be redeemed.
///
/// The payment keeps the id of the mandate in force, because a later lookup would find another one.
pub(super) fn spend(state: &mut State, mut request: Request) -> Arc<Request> {
    request.mandate = state.mandates.in_force(&request.agent).map(|signed| signed.issued.draft.id);
    allowances::spend(state, &request.agent, Lane::Payment, request.ask.usd());
    let request = Arc::new(request);
    // `lapses_at` is always `Some` here: all callers have just authorized the request.
    state.lapses.insert((request.lapses_at().unwrap_or(u64::MAX), request.id));
    state.authorized.insert(request.id, Arc::clone(&request));
    agents::change(state, &request.agent, |agent| {
        agent.open_payments = agent.open_payments.saturating_add(1)
    });
    request
}

/// Stores the signature of an authorized payment.
pub(super) fn sign(
    state: &mut State,
    id: &RequestId,
    signature: &Signature65,
) -> Option<Arc<Request>> {
    let request = Arc::make_mut(state.authorized.get_mut(id)?);
    if let Status::Authorized { signature: slot, .. } = &mut request.status {
        *slot = Some(*signature);
    }
    Some(Arc::new(request.clone()))
}

/// Removes the authorizations without a signature. Their value stays spent.
pub(super) fn drop_unsigned(state: &mut State) {
    let signed =
        |request: &Request| matches!(request.status, Status::Authorized { signature: Some(_), .. });
    let dropped: Vec<Arc<Request>> =
        state.authorized.values().filter(|request| !signed(request)).cloned().collect();
    for request in dropped {
        state.authorized.remove(&request.id);
        count_closed(state, &request);
    }
    let left = &state.authorized;
    state.lapses.retain(|(_at, id)| left.contains_key(id));
}

/// Removes the authorizations that can no longer be redeemed at the time of the newest entry.
pub(super) fn forget_lapsed(state: &mut State) {
    let now = u64::try_from(state.clock.seconds()).unwrap_or(0);
    while let Some(&(lapses_at, id)) = state.lapses.first() {
        if lapses_at > now {
            break;
        }
        state.lapses.remove(&(lapses_at, id));
        if let Some(lapsed) = state.authorized.remove(&id) {
            count_closed(state, &lapsed);
        }
    }
}

fn count_closed(state: &mut State, request: &Request) {
    agents::change(state, &request.agent, |agent| {
        agent.open_payments = agent.open_payments.saturating_sub(1)
    });
}
