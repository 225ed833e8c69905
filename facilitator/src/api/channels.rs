//! The endpoints of payment channels. The four that settle take the body of `/settle`, or the bare form
//! `{network, ...payload}`.

use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bursar_core::json::Value;
use bursar_core::networks;
use bursar_x402::settlement::SettlementRequest;
use serde::Deserialize;

use crate::api::access::Caller;
use crate::api::error_code::ErrorCode;
use crate::api::request::{
    BodyResult, ParsedRequest, RequestError, body_of, parse_settlement_request,
};
use crate::api::responses;
use crate::api::settling::settle_parsed;
use crate::api::state::Api;
use crate::batch::{bare, report};
use crate::reason::Reason;
use crate::verify::VerifyError;

/// The type of payload that an endpoint settles.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayloadType(pub(super) &'static str);

pub(super) const DEPOSIT: PayloadType = PayloadType("deposit");
pub(super) const CLAIM: PayloadType = PayloadType("claim");
pub(super) const SETTLE: PayloadType = PayloadType("settle");
pub(super) const REFUND: PayloadType = PayloadType("refund");

/// Settles a payload of the endpoint's type.
pub(super) async fn settle(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Extension(kind): Extension<PayloadType>,
    headers: HeaderMap,
    body: BodyResult,
) -> Response {
    settle_parsed(api, || parse(body, &caller, &headers, kind)).await
}

fn parse(
    body: BodyResult,
    caller: &Caller,
    headers: &HeaderMap,
    kind: PayloadType,
) -> ParsedRequest {
    let requester = caller.requester(headers).map_err(RequestError::Invalid)?;
    let body = body_of(body)?;
    let request = if body.get("paymentPayload").is_some() {
        parse_settlement_request(&body)?
    } else {
        read_bare(&body, kind)?
    };
    let named = request.payload.get("type").and_then(Value::as_str);
    if named != Some(kind.0) {
        return Err(RequestError::Rejected {
            rejection: Reason::BatchPayloadType.into(),
            request: Box::new(request),
        });
    }
    Ok((request, requester))
}

/// Reads `{network, ...payload}`, with `extensions` if the body has them. The payload may omit its type, because the
/// path names it.
fn read_bare(body: &Value, kind: PayloadType) -> Result<SettlementRequest, RequestError> {
    let object =
        body.as_object().ok_or_else(|| RequestError::Invalid("The body must be an object."))?;
    let network = match object.get("network") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.text().to_owned(),
        _missing => return Err(RequestError::Invalid("The body must name its network.")),
    };
    let mut payload = object.clone();
    if payload.get("type").is_none() {
        payload.insert("type", kind.0);
    }
    let extensions = object.get("extensions").and_then(Value::as_object);
    let extensions = extensions.cloned().unwrap_or_default();
    bare::request(&network, payload, extensions).map_err(|error| match error {
        VerifyError::Malformed(fault) => RequestError::Malformed(fault),
        VerifyError::Rejected(rejection) => RequestError::Bare { network, rejection },
        // These errors cannot occur: reading a request asks neither a node nor the store.
        VerifyError::Chain(_) | VerifyError::Store(_) => {
            RequestError::Invalid("The body cannot be read.")
        }
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct NetworkQuery {
    network: Option<String>,
}

/// The state of a channel.
pub(super) async fn channel(
    State(api): State<Arc<Api>>,
    Extension(_caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<NetworkQuery>, QueryRejection>,
) -> Response {
    let invalid = |text| responses::error_because(ErrorCode::InvalidRequest, text);
    let Some(id) = id.ok().and_then(|Path(id)| id.parse().ok()) else {
        return invalid("A channel id is 0x and 64 hex digits: correct the path.");
    };
    let Ok(Query(query)) = query else {
        return invalid("The query cannot be read: name one network, in ?network=.");
    };
    let row = query.network.as_deref().and_then(networks::by_id_or_v1_name);
    let Some(settler) = row.and_then(|row| api.settlement.settlers.get(&row.chain)) else {
        return invalid("Name a network as /supported does, in ?network=.");
    };
    match report::channel(&settler.network, id).await {
        Ok(Some(state)) => responses::with_status(StatusCode::OK, state),
        Ok(None) => responses::error(ErrorCode::ChannelNotFound),
        Err(fault) => {
            tracing::warn!(%fault, "the state of a channel could not be read");
            responses::with_retry_after(responses::error(ErrorCode::Unavailable))
        }
    }
}

/// The contracts of payment channels.
pub(super) async fn contracts(State(api): State<Arc<Api>>) -> Response {
    responses::with_status(StatusCode::OK, api.catalogue.channel_contracts())
}
