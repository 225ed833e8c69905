//! `POST /mandate`: an agent's limits, and how much of them is left today.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::fault::Fault;
use bursar_core::hosts::HostEntry;
use bursar_core::json::{Object, Value};
use bursar_core::money::Usd;
use bursar_core::networks::{NETWORKS, Network};
use bursar_core::policy::TradingPolicy;
use bursar_core::text;
use bursar_domain::loans::Exposure;
use bursar_domain::mandate_terms::stale_reasons;

use super::admit::{Caller, Incoming, admit};
use super::api::Api;
use super::lending_policy::lending_policy;
use super::message::Endpoint;
use super::numbers::{decimal, percent};
use super::reply::Answer;
use crate::lanes::lending::KnownVenues;

pub(super) async fn mandate(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_mandate(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_mandate(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    let caller = admit(api, Endpoint::Read, &incoming)?;
    let (agent, state) = (caller.agent(), &caller.view.state);
    let spent = state.spent(agent, &caller.moment).payment;
    let left = state
        .policy_of(agent)
        .map(|policy| policy.payments.daily.left_after(spent).left_after(agent.reserved.payment).0);
    let exposure = exposure(api, &caller).await;
    let body = Object::new()
        .with("status", "ok")
        .with("agent_name", agent.name.as_str())
        .with(api.edition.wire.field, agent.id.as_str())
        .with("wallet_address", wallet_address(&caller))
        .with("wallet_id", wallet_id(&caller))
        .with("spent_today_micro", spent.0)
        .with("reserved_micro", agent.reserved.payment.0)
        .with("remaining_today_micro", left.map_or(Value::Null, Value::from))
        .with("renews_at", renews_at(api, &caller))
        .with("renews_at_unknown_reason", renews_at_unknown_reason(&caller))
        .with("policy", policy(api, &caller, exposure.as_ref()))
        .with("networks", networks(&caller));
    Ok(Answer::new(200, with_mandate(body, &caller)))
}

/// Adds the agent's mandate in force, and whether its terms still hold.
fn with_mandate(body: Object, caller: &Caller) -> Object {
    let (agent, state) = (caller.agent(), &caller.view.state);
    let Some(signed) = state.mandates.in_force(&agent.id) else {
        return body
            .with("mandate", Value::Null)
            .with("mandate_note", "No Intent Mandate exists for this agent.");
    };
    let draft = &signed.issued.draft;
    let reasons = stale_reasons(state, signed);
    let known = state.mandates.registrations(&agent.id).iter();
    let confirmed = known.rev().find_map(|one| one.find(draft.id)?.confirmed());
    let registry_id = confirmed.map_or(Value::Null, |known| Value::from(known.entry.id.as_str()));
    let body = body
        .with("mandate", draft.signed(&signed.signature))
        .with("mandate_id", draft.id.to_string())
        .with("mandate_registry_id", registry_id)
        .with("mandate_stale", !reasons.is_empty());
    if reasons.is_empty() {
        return body;
    }
    body.with("mandate_stale_reason", reasons.join("; "))
}

/// Reads how much the agent's address has lent; `None` if its policy allows no loans.
async fn exposure(api: &Api, caller: &Caller) -> Option<Exposure> {
    let state = &caller.view.state;
    let policy = state.policy_of(caller.agent()).filter(|policy| policy.lending.enabled)?;
    let owner = caller.paying_address()?.address;
    Some(api.lending.exposure(owner, &KnownVenues::new(state, policy, owner)).await)
}

/// Returns the time at which the daily allowance renews, in UTC; null while the operator must decide about it.
pub(super) fn renews_at(api: &Api, caller: &Caller) -> Value {
    let next = caller.view.state.renews_after(caller.agent(), &caller.moment);
    next.map_or(Value::Null, |(earliest, day)| {
        Value::from(text::utc(api.ports.clock.midnight(earliest, day)))
    })
}

/// Returns the reason if [`renews_at`] is null, else null.
pub(super) fn renews_at_unknown_reason(caller: &Caller) -> Value {
    let (agent, state) = (caller.agent(), &caller.view.state);
    match state.renews_after(agent, &caller.moment) {
        Some(_known) => Value::Null,
        None => Value::from(state.renewal_doubt(agent)),
    }
}

pub(super) fn wallet_address(caller: &Caller) -> Value {
    caller
        .paying_address()
        .map_or(Value::Null, |known| Value::from(known.address.to_checksum(None)))
}

/// Returns the operator's label of the paying address.
pub(super) fn wallet_id(caller: &Caller) -> Value {
    caller.paying_address().map_or(Value::Null, |known| Value::from(known.label.as_str()))
}

fn policy(api: &Api, caller: &Caller, exposure: Option<&Exposure>) -> Value {
    let agent = caller.agent();
    let (Some(given), Some(policy)) = (&agent.commission, caller.view.state.policy_of(agent))
    else {
        return Value::Null;
    };
    let payments = &policy.payments;
    let limits = Object::new()
        .with("name", given.policy.as_str())
        .with("daily_limit_micro", payments.daily.0)
        .with("per_request_max_micro", payments.per_request.0)
        .with("auto_approve_below_micro", payments.auto_below.0)
        .with("allowed_domains", domains(&payments.hosts.allowed))
        .with("blocked_domains", domains(&payments.hosts.blocked));
    if !api.edition.has_trades_or_loans() {
        return Value::from(limits);
    }
    let lends = Some(policy).filter(|policy| policy.lending.enabled);
    let morpho =
        lends.map_or(Value::Null, |policy| Value::from(lending_policy(caller, policy, exposure)));
    Value::from(limits.with("trading", trading(caller, &policy.trading)).with("morpho", morpho))
}

/// Returns the limits for trades, in dollars, percent and ETH.
fn trading(caller: &Caller, policy: &TradingPolicy) -> Object {
    if !policy.enabled {
        return Object::new().with("enabled", false);
    }
    let agent = caller.agent();
    let spent = caller.view.state.spent(agent, &caller.moment).trade;
    let reserved = agent.reserved.trade;
    let auto = Some(policy.auto_below).filter(|auto| *auto > Usd::ZERO);
    Object::new()
        .with("enabled", true)
        .with("per_trade_max_usd", decimal(&policy.per_trade.to_string()))
        .with("daily_volume_limit_usd", decimal(&policy.daily.to_string()))
        .with("auto_approve_below_usd", auto.map_or(Value::Null, |auto| decimal(&auto.to_string())))
        .with("max_slippage_percent", decimal(&percent(policy.max_slippage)))
        .with("max_price_impact_percent", decimal(&percent(policy.max_impact)))
        .with("min_reserve_eth", decimal(&policy.min_native.as_coins()))
        .with("volume_today_usd", decimal(&spent.to_string()))
        .with("committed_today_usd", decimal(&reserved.to_string()))
        .with(
            "remaining_today_usd",
            decimal(&policy.daily.left_after(spent).left_after(reserved).to_string()),
        )
}

fn domains(entries: &[HostEntry]) -> Value {
    if entries.is_empty() {
        return Value::Null;
    }
    Value::from(entries.iter().map(|entry| Value::from(entry.as_str())).collect::<Vec<_>>())
}

/// Returns the networks on which the agent may pay.
pub(super) fn usable_networks(caller: &Caller) -> Vec<&'static Network> {
    let state = &caller.view.state;
    let policy = state.policy_of(caller.agent());
    let usable = NETWORKS.iter().filter(|row| {
        state.is_network_enabled(row.chain) && policy.is_some_and(|p| p.networks.allows(row.chain))
    });
    usable.collect()
}

/// Returns the networks on which the agent may pay, as CAIP-2 ids.
fn networks(caller: &Caller) -> Value {
    let usable = usable_networks(caller).into_iter();
    Value::from(usable.map(|row| Value::from(row.caip2())).collect::<Vec<_>>())
}
