//! The routes of the agent server.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::api::Api;
use super::balances;
use super::callback;
use super::guard;
use super::health;
use super::mandate;
use super::openapi;
use super::plan_request;
use super::receipt;
use super::reply::Answer;
use super::sign;
use super::texts;
use super::venues;
use crate::lanes::lending::LoanInput;
use crate::lanes::trading::TradeInput;

/// Returns the routes. Tests call them in process.
pub fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/health", only(get(health::health), "GET"))
        .route("/status", only(get(health::status).post(health::status), "GET, POST"))
        .route("/ping", only(post(health::ping), "POST"))
        .route("/sign", only(post(sign::sign), "POST"))
        .route("/sign/status/{id}", only(get(sign::status::status), "GET"))
        .route("/sign/status/", only(get(missing_id), "GET"))
        .route("/", only(get(texts::root), "GET"))
        .route("/agent", only(get(texts::skill), "GET"))
        .route("/agent/partner", only(get(texts::partner), "GET"))
        .route("/agent/1claw", only(get(texts::partner), "GET"))
        .route("/agent/{*other}", only(get(texts::skill), "GET"))
        .route("/openapi.json", only(get(openapi::openapi), "GET"))
        .route("/sign/helper", only(get(texts::helper), "GET"))
        .route("/callback", only(post(callback::callback), "POST"))
        .route("/receipt/{id}", only(get(receipt::receipt), "GET"))
        .route("/receipt/", only(get(receipt::missing_id), "GET"))
        .route("/mandate", only(post(mandate::mandate), "POST"))
        .route("/balances", only(post(balances::balances), "POST"))
        .route("/trade", only(post(plan_request::request::<TradeInput>), "POST"))
        .route("/trade/status/{id}", only(get(plan_request::status::<TradeInput>), "GET"))
        .route("/trade/status/", only(get(missing_id), "GET"))
        .route("/venues", only(post(venues::venues), "POST"))
        .route("/position", only(post(plan_request::request::<LoanInput>), "POST"))
        .route("/position/status/{id}", only(get(plan_request::status::<LoanInput>), "GET"))
        .route("/position/status/", only(get(missing_id), "GET"))
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(&api), guard::guard))
        .with_state(api)
}

fn only(methods: MethodRouter<Arc<Api>>, allowed: &'static str) -> MethodRouter<Arc<Api>> {
    methods.fallback(move || async move { Answer::wrong_method(allowed).into_http() })
}

async fn not_found() -> Response<Body> {
    Answer::from(Fault::new(Code::NotFound)).into_http()
}

async fn missing_id() -> Response<Body> {
    Answer::from(Fault::new(Code::MissingRequestId)).into_http()
}
