//! Invariants that must hold after every step. A violation is a bug in the wallet: the engine stops rather than spend
//! money from an impossible state.

use std::collections::BTreeSet;
use std::sync::Arc;

use bursar_core::card::{ByLane, Lane};
use bursar_x402::authorization::Authorization;

use crate::plan::outbox_key;
use crate::requests::{PaymentAsk, Request, Status};
use crate::state::State;

/// A broken invariant, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the state is impossible: {0}")]
pub struct Violation(pub String);

/// Checks the whole state.
///
/// # Errors
/// Returns the first invariant that does not hold.
pub fn check(state: &State) -> Result<(), Violation> {
    check_held(state)?;
    check_authorized(state)
}

/// Checks the open requests, the amounts that they reserve, and the outboxes.
///
/// The number of open requests is bounded, so this check is cheap enough for every step.
///
/// # Errors
/// Returns the first invariant that does not hold.
pub fn check_held(state: &State) -> Result<(), Violation> {
    for agent in state.agents.values() {
        for lane in Lane::ALL {
            let reserved = *agent.reserved.of(lane);
            let of_lane =
                |request: &&Arc<Request>| request.agent == agent.id && request.ask.lane() == lane;
            let held = state.held.values().filter(of_lane).map(|request| request.ask.usd());
            let executing = state.executing.values().filter(of_lane);
            let executing = executing.filter_map(|request| Some(request.execution()?.reserved()));
            let by_device =
                state.reserved_for_device().filter(of_lane).map(|request| request.ask.usd());
            let sum = held
                .chain(executing)
                .chain(by_device)
                .map(|usd| usd.0)
                .try_fold(0u64, u64::checked_add);
            if sum != Some(reserved.0) {
                return Err(Violation(format!(
                    "agent {} reserves {reserved} USD but its open requests of the lane {} are \
                     worth {sum:?} micro-dollars",
                    agent.id,
                    lane.text(),
                )));
            }
        }
        if agent.commission.is_none() && agent.reserved != ByLane::default() {
            return Err(Violation(format!(
                "agent {} has a reservation without a commission",
                agent.id
            )));
        }
    }
    for outbox in state.outboxes.with_open_submissions() {
        let holders = outbox.open.values().filter(|one| one.nonce.is_some()).count();
        if holders != outbox.held_nonces().len() {
            return Err(Violation(format!("two submissions of {:?} hold one nonce", outbox.key)));
        }
    }
    for (id, request) in state.held.iter() {
        if *id != request.id || !request.is_held() {
            return Err(Violation(format!("{id:?} is in the queue but is not held")));
        }
        if !state.agents.contains_key(&request.agent) {
            return Err(Violation(format!("{id:?} is held for an agent that no longer exists")));
        }
    }
    check_devices(state)?;
    check_executing(state)
}

/// Returns whether terms pay the requested amount, from the request's address to the requested payee.
fn terms_match_request(terms: &Authorization, request: &Request, payment: &PaymentAsk) -> bool {
    terms.value == payment.amount.0 && terms.to == payment.payee && terms.from == request.from
}

/// Checks the payments that wait for a device, and the ended ones that a device may have signed.
fn check_devices(state: &State) -> Result<(), Violation> {
    let unanswered = state.unanswered.iter().map(|one| (one, true));
    for ((id, request), has_ended) in state.waiting.iter().map(|one| (one, false)).chain(unanswered)
    {
        let payment = request.ask.payment();
        let (Some(turn), Some(payment)) = (request.device_turn(), payment) else {
            return Err(Violation(format!("{id:?} waits for a device but is no such payment")));
        };
        if *id != request.id || (has_ended && turn.shown_prompt().is_none()) {
            return Err(Violation(format!("{id:?} cannot have been signed by a device")));
        }
        if !has_ended && !state.agents.contains_key(&request.agent) {
            return Err(Violation(format!("{id:?} waits for an agent that no longer exists")));
        }
        let is_bound = |terms| terms_match_request(terms, request, payment);
        if turn.prompt.as_ref().is_some_and(|prompt| !is_bound(&prompt.terms)) {
            return Err(Violation(format!("{id:?} was prompted for other terms than requested")));
        }
        if state.held.contains_key(id) || state.authorized.contains_key(id) {
            return Err(Violation(format!("{id:?} waits for a device and is elsewhere too")));
        }
    }
    Ok(())
}

/// Checks the running plans.
///
/// At most one plan per address and network has begun, and each open step has its submission in the outbox.
fn check_executing(state: &State) -> Result<(), Violation> {
    let mut busy = BTreeSet::new();
    for (id, request) in state.executing.iter() {
        let Some(execution) = request.execution().filter(|_any| *id == request.id) else {
            return Err(Violation(format!("{id:?} is listed as executing but is not")));
        };
        let unfinished = execution.steps.iter().filter(|step| step.outcome.is_none()).count();
        let open = execution.open_step();
        if unfinished != usize::from(open.is_some()) {
            return Err(Violation(format!("{id:?} has an unfinished step before its last")));
        }
        let key = outbox_key(request.ask.chain(), request.from);
        let ended = execution.end.is_some() || execution.steps.is_empty();
        if (open.is_some() || !ended) && !busy.insert(key) {
            return Err(Violation(format!("two plans have begun for {key:?}")));
        }
        let Some(step) = open else { continue };
        if !state.outboxes.get(&key).open.contains_key(&step.submission) {
            return Err(Violation(format!("{id:?} waits for a transaction that is not open")));
        }
    }
    Ok(())
}

fn check_authorized(state: &State) -> Result<(), Violation> {
    if state.lapses.len() != state.authorized.len() {
        return Err(Violation("authorizations and their expiry times do not match".to_owned()));
    }
    for agent in state.agents.values() {
        let open = state.authorized.values().filter(|request| request.agent == agent.id).count();
        if usize::try_from(agent.open_payments) != Ok(open) {
            return Err(Violation(format!(
                "agent {} counts {} open payments, but there are {open}",
                agent.id, agent.open_payments
            )));
        }
    }
    for (id, request) in &state.authorized {
        let Status::Authorized { terms, .. } = &request.status else {
            return Err(Violation(format!("{id:?} is listed as open but is not authorized")));
        };
        let Some(payment) = request.ask.payment() else {
            return Err(Violation(format!("{id:?} is authorized but is not a payment")));
        };
        let bound = terms_match_request(terms, request, payment);
        let lapses = request.lapses_at().is_some_and(|at| state.lapses.contains(&(at, *id)));
        if !bound || !lapses {
            return Err(Violation(format!(
                "{id:?} is authorized for other terms than requested, or has no expiry time"
            )));
        }
        if state.held.contains_key(id) {
            return Err(Violation(format!("{id:?} is authorized and still held")));
        }
    }
    Ok(())
}
