//! The HTTP API. Positive and negative verdicts have status 200. Only a failed settlement for an older client has
//! status 402. Other statuses are for invalid requests, callers without access, and faults of the facilitator.

mod access;
mod catalogue;
mod channels;
mod delivery;
pub mod error_code;
mod request;
mod responses;
mod settling;
mod state;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use bursar_serve::http::{Refusal, RefusalWriter, openmetrics};
use serde::Deserialize;
use serde_json::Value;

use crate::health::ServiceHealth;
use crate::metrics::{Metrics, Route};
use crate::reason::{Reason, Rejection};
use crate::verify::VerifyError;
use access::Caller;
pub use catalogue::Catalogue;
use channels::PayloadType;
use error_code::ErrorCode;
use request::{BODY_BYTES_MAX, BodyResult, RequestError, parse};
use settling::settle_parsed;
pub use state::Api;

/// All routes for callers.
pub fn router(api: Arc<Api>) -> Router {
    let guarded = Router::new()
        .route("/verify", post(verify))
        .route("/settle", post(settle))
        .route("/batch/deposit", channel_settle_route(channels::DEPOSIT))
        .route("/batch/claim", channel_settle_route(channels::CLAIM))
        .route("/batch/settle", channel_settle_route(channels::SETTLE))
        .route("/batch/refund", channel_settle_route(channels::REFUND))
        .route("/batch/channel/{id}", get(channels::channel))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&api), access::guard));
    Router::new()
        .merge(guarded)
        .route("/supported", get(supported))
        .route("/health", get(health))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/contracts", get(contracts))
        .route("/batch/contracts", get(channels::contracts))
        .route("/openapi.json", get(openapi))
        .fallback(|| async { responses::error(ErrorCode::NotFound) })
        .method_not_allowed_fallback(|| async { responses::error(ErrorCode::MethodNotAllowed) })
        .with_state(api)
}

/// The endpoint that settles one type of channel payload.
fn channel_settle_route(kind: PayloadType) -> MethodRouter<Arc<Api>> {
    post(channels::settle).layer(Extension(kind))
}

/// Returns the writer of responses to requests that match no route.
pub fn refusal_writer() -> RefusalWriter {
    RefusalWriter::new(|refused| {
        let response = responses::error_because(refused.why.into(), refused.why.text());
        if refused.why == Refusal::Busy { responses::with_retry_after(response) } else { response }
    })
}

/// The routes for Prometheus and the operator, on a separate listener.
pub fn metrics_router(metrics: Arc<Metrics>, health: Arc<ServiceHealth>) -> Router {
    let report = move || async move { responses::with_status(StatusCode::OK, health.report()) };
    let unknown = "There is nothing at this path: see /metrics and /status.";
    let only_get = "This path supports only GET.";
    Router::new()
        .route("/metrics", openmetrics(move || metrics.text()))
        .route("/status", get(report))
        .fallback(async || responses::error_because(ErrorCode::NotFound, unknown))
        .method_not_allowed_fallback(async || {
            responses::error_because(ErrorCode::MethodNotAllowed, only_get)
        })
}

async fn verify(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: BodyResult,
) -> Response {
    let started_ms = api.clock.mono_ms();
    let (result, response) = match parse(body, &caller, &headers) {
        Err(error) => error.response(Route::verify),
        Ok((request, requester)) => match api.settlement.verify(&request, &requester).await {
            Ok(valid) => ("good", responses::valid_response(&valid)),
            Err(VerifyError::Rejected(rejection)) => {
                (rejection.reason.text(), responses::invalid_response(&rejection))
            }
            Err(VerifyError::Malformed(fault)) => {
                RequestError::Malformed(fault).response(Route::verify)
            }
            Err(fault @ (VerifyError::Chain(_) | VerifyError::Store(_))) => {
                tracing::warn!(%fault, "a payment could not be verified");
                let reason = Reason::UnexpectedVerify;
                let rejection = Rejection::from(reason);
                (
                    reason.text(),
                    responses::with_retry_after(responses::with_status(
                        StatusCode::SERVICE_UNAVAILABLE,
                        responses::invalid_body(&rejection),
                    )),
                )
            }
        },
    };
    api.metrics.count_answer(Route::verify, result, api.clock.mono_ms().saturating_sub(started_ms));
    response
}

async fn settle(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: BodyResult,
) -> Response {
    settle_parsed(api, || parse(body, &caller, &headers)).await
}

#[derive(Debug, Deserialize)]
struct SupportedQuery {
    view: Option<String>,
}

async fn supported(
    State(api): State<Arc<Api>>,
    query: Result<Query<SupportedQuery>, QueryRejection>,
) -> Response {
    let Ok(Query(query)) = query else {
        let text = "The query cannot be read: leave it out, or send view=summary once.";
        return responses::error_because(ErrorCode::InvalidRequest, text);
    };
    let body = match query.view.as_deref() {
        None => api.catalogue.supported(),
        Some("summary") => api.catalogue.summary(),
        Some(_other) => {
            let text = "The only other view is /supported?view=summary.";
            return responses::error_because(ErrorCode::InvalidRequest, text);
        }
    };
    responses::with_status(StatusCode::OK, body)
}

async fn health(State(api): State<Arc<Api>>) -> Response {
    responses::with_status(StatusCode::OK, api.catalogue.health(api.health.is_degraded()))
}

/// Reports that the process is alive.
async fn livez() -> Response {
    responses::with_status(StatusCode::OK, serde_json::json!({ "status": "alive" }))
}

/// Reports whether payments can be settled, with the checks of [`ServiceHealth`].
async fn readyz(State(api): State<Arc<Api>>) -> Response {
    api.health.set_store(api.store.accepts_writes().await);
    let ready = api.health.is_ready() && !api.stopping.is_cancelled();
    let mut body = api.health.checks();
    body["status"] = Value::from(if ready { "ready" } else { "not ready" });
    if ready {
        return responses::with_status(StatusCode::OK, body);
    }
    responses::with_retry_after(responses::with_status(StatusCode::SERVICE_UNAVAILABLE, body))
}

async fn contracts(State(api): State<Arc<Api>>) -> Response {
    responses::with_status(StatusCode::OK, api.catalogue.contracts())
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], include_str!("../openapi.json")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The document contains all routes above and every code.
    #[test]
    fn openapi_document_lists_every_route_and_every_code() {
        let document: Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
        let documented: BTreeSet<String> =
            document["paths"].as_object().unwrap().keys().cloned().collect();
        let source = include_str!("api.rs").split("mod tests").next().unwrap();
        let routed: BTreeSet<String> = source
            .split(".route(\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .filter(|path| !["/metrics", "/status"].contains(&path.as_str()))
            .collect();
        assert_eq!(documented, routed);
        let codes = &document["components"]["schemas"]["Reason"]["enum"];
        let codes: Vec<&str> =
            codes.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
        let known: Vec<&str> = Reason::ALL.iter().map(|reason| reason.text()).collect();
        assert_eq!(codes, known);
        let codes = &document["components"]["schemas"]["Error"]["properties"]["code"]["enum"];
        let known: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.text()).collect();
        assert_eq!(*codes, Value::from(known));
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
