//! `POST /balances`: the balances of an agent's address on the networks that it may use.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::fault::Fault;
use bursar_core::json::{self, Object, Value};
use bursar_core::limits::FUNDS_FOREIGN_TOKENS_MAX;

use super::admit::{Incoming, admit};
use super::api::Api;
use super::mandate::{usable_networks, wallet_address, wallet_id};
use super::message::Endpoint;
use super::reply::Answer;
use crate::funds::{NetworkFunds, TokenHolding};

pub(super) async fn balances(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_balances(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_balances(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    let caller = admit(api, Endpoint::Read, &incoming)?;
    let body = Object::new()
        .with("status", "ok")
        .with("wallet_address", wallet_address(&caller))
        .with("wallet_id", wallet_id(&caller));
    let Some(owner) = caller.paying_address().map(|known| known.address) else {
        let why = "No address is assigned to this agent.";
        let body = body.with("balances", Value::Null).with("balances_error", why);
        return Ok(Answer::new(200, body));
    };
    let networks = usable_networks(&caller);
    // The lookup may take seconds. Drop the view, so that it does not stay in memory meanwhile.
    drop(caller);
    let funds = api.funds.of(owner, &networks).await;
    Ok(Answer::new(200, with_balances(body, &funds)))
}

/// Adds the balances, native coins first. The list is null if no network returned an amount, and empty only if the
/// agent may use no network.
fn with_balances(body: Object, funds: &[Arc<NetworkFunds>]) -> Object {
    let entries = |native: bool| {
        funds.iter().flat_map(move |on| {
            let held = on.held.iter().filter(move |held| held.token.is_none() == native);
            held.map(move |held| (on, held))
        })
    };
    // Any account can send tokens with any name to an address, so the number of unverified tokens is limited.
    let mut room = FUNDS_FOREIGN_TOKENS_MAX;
    let mut left_out = 0_usize;
    let listed = entries(true).chain(entries(false)).filter(|(_on, held)| {
        let fits = held.is_verified() || room > 0;
        room = room.saturating_sub(usize::from(!held.is_verified()));
        left_out = left_out.saturating_add(usize::from(!fits));
        fits
    });
    let all: Vec<Value> = listed.map(|(on, held)| Value::from(entry(on, held))).collect();
    let nothing = !funds.is_empty() && !funds.iter().any(|on| on.has_any_amount());
    let body = body.with("balances", if nothing { Value::Null } else { Value::from(all) });
    let more = (left_out > 0).then(|| format!("{left_out} more unverified tokens are not listed."));
    let why: Vec<String> = problems(funds).into_iter().chain(more).collect();
    if why.is_empty() { body } else { body.with("balances_error", why.join(" ")) }
}

fn entry(on: &NetworkFunds, held: &TokenHolding) -> Object {
    let entry = Object::new()
        .with("symbol", held.symbol.as_str())
        .with("token_address", held.token.map(|token| token.to_checksum(None)))
        .with("decimals", held.decimals.map(u64::from))
        .with("raw", held.amount.ok().map(|atoms| atoms.to_string()))
        .with("formatted", number(held.formatted()))
        .with("is_native", held.token.is_none())
        .with("usd_value", number(held.usd().map(|usd| usd.to_string())))
        .with("network", on.network.caip2())
        .with("verified", held.is_verified());
    match held.amount {
        Ok(_known) => entry,
        Err(why) => entry.with("error", why.text()),
    }
}

/// Explains which networks are missing from the list, or incomplete in it.
fn problems(funds: &[Arc<NetworkFunds>]) -> Option<String> {
    let each = funds.iter().flat_map(|on| {
        let failure = on.failure().map(|why| why.text());
        let reasons = failure.into_iter().chain(on.incomplete);
        reasons.map(|why| format!("{}: {why}", on.network.caip2()))
    });
    Some(each.collect::<Vec<_>>().join(" ")).filter(|all| !all.is_empty())
}

/// Returns a JSON number of exactly this value, without trailing zeros after the point.
fn number(digits: Option<String>) -> Value {
    let digits = digits.map(|digits| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits,
    });
    digits.and_then(|digits| json::parse(digits.as_bytes(), 1).ok()).unwrap_or(Value::Null)
}
