//! Permits of plans: signatures by which Permit2 lets the router take the input of one swap.

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::networks;
use bursar_uniswap::Permit;
use bursar_x402::signature::Signature65;

use super::plans::{end_events, may_sign, with_cause};
use super::steps::{acting_plan, check_continues};
use super::trades::still_allowed;
use super::unattended::check_unattended;
use crate::command::{Command, PermitOrder};
use crate::decision::{Decision, Effect, Reply, require_sealed};
use crate::event::Event;
use crate::plan::{Execution, ExecutionEnd, PLAN_S};
use crate::refusal::Refusal;
use crate::state::State;
use crate::trades::{PERMITS_MAX, TradeAsk, TradeQuote, Venue};

/// Allows the signature of a permit if prices and policy still allow the swap. Otherwise ends the trade.
pub(super) fn order(
    state: &State,
    command: &Command,
    order: &PermitOrder,
) -> Result<Decision, Refusal> {
    let (request, execution) = acting_plan(state, command, order.id, order.index)?;
    let trade = request.trade().ok_or(Refusal::new(Code::RequestNotFound))?;
    check_continues(execution)?;
    let allowed = may_sign(state, command, request, execution, true)
        .and_then(|()| check_unattended(state, command, request, execution, order.quote.value_in))
        .and_then(|()| still_allowed(state, command, request, (trade, execution), &order.quote))
        .and_then(|()| check_count(execution));
    if let Err(refusal) = allowed {
        let refusal = with_cause(state, request, refusal);
        let events = end_events(request, execution, ExecutionEnd::Rejected(refusal));
        return Ok(Decision::reply(events, Reply::Request(request.id)));
    }
    let by_device = state.is_on_device(request.from);
    check_permit(trade, &order.quote, &order.permit, by_device)?;
    Ok(Decision {
        events: vec![Event::PermitOrdered { id: order.id, permit: order.permit }],
        effects: vec![Effect::SignPermit(order.id)],
        reply: Reply::Request(order.id),
    })
}

/// Records the signature of the newest permit of a running trade, once. Any other signature is discarded: a person at a
/// device may sign a permit after the trade has ended.
///
/// # Errors
/// The wallet is locked or its journal untrusted: no seal would cover the entry. The plan then orders another permit.
pub(super) fn record_signature(
    state: &State,
    command: &Command,
    id: RequestId,
    permit: &Permit,
    signature: &Signature65,
) -> Result<Decision, Refusal> {
    require_sealed(command)?;
    let running = state.executing.get(&id).filter(|request| request.permit_digest().is_some());
    let newest = running.and_then(|request| request.execution()?.permit.as_ref());
    let event = Event::PermitSigned { id, signature: *signature };
    let is_newest = newest.is_some_and(|one| one.permit == *permit);
    Ok(Decision::done(if is_newest { vec![event] } else { Vec::new() }))
}

fn check_count(execution: &Execution) -> Result<(), Refusal> {
    let count = execution.permit.as_ref().map_or(0, |permit| permit.count);
    if count < PERMITS_MAX {
        return Ok(());
    }
    let message = "The swap was not sent before its permits expired: request the trade again.";
    Err(Refusal::because(Code::PlanExpired, message))
}

/// Checks that the permit lets the router take exactly the input, and not after the swap's deadline.
///
/// On a device the permit may last as long as the plan, because the person signs the swap in a later prompt.
fn check_permit(
    trade: &TradeAsk,
    quote: &TradeQuote,
    permit: &Permit,
    by_device: bool,
) -> Result<(), Refusal> {
    let wrong = || Refusal::because(Code::BadInput, "The permit does not fit the trade.");
    let exchange = networks::by_chain(trade.chain).and_then(|network| network.exchange);
    let exchange = exchange.ok_or_else(wrong)?;
    let lasts_s = if by_device { PLAN_S } else { exchange.deadline_seconds };
    let latest = quote.block_time.saturating_add(lasts_s);
    let latest = trade.deadline.map_or(latest, |deadline| deadline.min(latest));
    let fits = matches!(trade.venue, Venue::V4 { .. })
        && trade.token_in.address == Some(permit.token)
        && permit.amount == trade.amount_in.0
        && permit.spender == exchange.v4.router
        && permit.expiration <= latest
        && permit.signature_deadline <= latest;
    if fits { Ok(()) } else { Err(wrong()) }
}
