//! `/venues`, `/position` and the polls of positions, while lending is off. A request gets the usual checks, then the
//! answer for a policy that disables lending. A poll finds no request.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{Object, Value};

use super::admit::{Incoming, admit};
use super::api::Api;
use super::message::Endpoint;
use super::path_id::{PathId, text_of};
use super::reply::Answer;

/// Names of fields that only the operator decides. A field can appear under several names:
/// those of other wallets, our answers and the contracts.
const NOT_PERMITTED: &[&str] = &[
    "agent_id",
    "agent_code",
    "wallet_address",
    "wallet",
    "recipient",
    "receiver",
    "to",
    "from",
    "owner",
    "on_behalf",
    "on_behalf_of",
    "onBehalf",
    "policy",
    "max_price_impact",
    "max_price_impact_percent",
    "max_slippage_percent",
    "min_reserve_eth",
    "per_trade_max_usd",
    "daily_volume_limit_usd",
    "auto_approve",
    "auto_approve_below_usd",
    "max_deposit_usd",
    "max_total_deployed_usd",
    "max_deployed_percent",
    "max_ops_per_day",
    "restrict_to_curated",
    "curators",
];

pub(super) async fn position(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    let answer = judge(&api, request, Endpoint::Position).await;
    let answer = answer.map_or_else(Answer::from, |()| lending_off());
    api.counters.count_trade(&answer);
    answer.into_http()
}

pub(super) async fn venues(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    let answer = judge(&api, request, Endpoint::Venues).await;
    answer.map_or_else(Answer::from, |()| lending_off()).into_http()
}

/// `GET /position/status/{id}`. No position exists yet.
pub(super) async fn status(id: PathId) -> Response<Body> {
    let code = match text_of(id).parse::<RequestId>() {
        Ok(_unknown) => Code::RequestNotFound,
        Err(_no_uuid) => Code::InvalidRequestId,
    };
    Answer::from(Fault::new(code)).into_http()
}

async fn judge(api: &Api, request: HttpRequest, endpoint: Endpoint) -> Result<(), Fault> {
    let incoming = Incoming::read(request).await?;
    incoming.named_agent(api)?;
    let object = match endpoint {
        Endpoint::Position => Some(wanted(&incoming, "position", Code::MissingPosition)?),
        _venues => match incoming.body.get("position") {
            None => None,
            Some(Value::Object(object)) => Some(object),
            Some(_other) => {
                let message = "position must be an object.";
                return Err(Fault::because(Code::BadRequest, message));
            }
        },
    };
    object.map_or(Ok(()), check_fields)?;
    admit(api, endpoint, &incoming).map(|_caller| ())
}

/// Refuses a trade or position that names a field of the operator's.
///
/// # Errors
/// `FIELD_NOT_PERMITTED`.
pub(super) fn check_fields(object: &Object) -> Result<(), Fault> {
    let named = NOT_PERMITTED.iter().find(|name| object.get(name).is_some());
    named.map_or(Ok(()), |name| {
        let message = format!("The operator decides this: leave {name} out.");
        Err(Fault::because(Code::FieldNotPermitted, message))
    })
}

/// Returns the object that a body must contain.
///
/// # Errors
/// `missing` if it is not there or not an object.
pub(super) fn wanted<'a>(
    incoming: &'a Incoming,
    name: &str,
    missing: Code,
) -> Result<&'a Object, Fault> {
    match incoming.body.get(name) {
        Some(Value::Object(object)) => Ok(object),
        _missing => Err(Fault::new(missing)),
    }
}

fn lending_off() -> Answer {
    Answer::from(Fault::new(Code::DefiDisabled))
}
