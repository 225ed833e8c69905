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
use crate::edition::Paths;
use crate::lanes::lending::LoanInput;
use crate::lanes::trading::TradeInput;

/// Returns the routes of the edition. Tests call them in process.
pub fn router(api: Arc<Api>) -> Router {
    EditionRouter { router: Router::new(), paths: api.edition.wire.paths }
        .route("/health", with_wrong_method_answer(get(health::health), "GET"))
        .route(
            "/status",
            with_wrong_method_answer(get(health::status).post(health::status), "GET, POST"),
        )
        .route("/ping", with_wrong_method_answer(post(health::ping), "POST"))
        .route("/sign", with_wrong_method_answer(post(sign::sign), "POST"))
        .route("/sign/status/{id}", with_wrong_method_answer(get(sign::status::status), "GET"))
        .route("/sign/status/", with_wrong_method_answer(get(missing_id), "GET"))
        .route("/", with_wrong_method_answer(get(texts::root), "GET"))
        .route("/agent", with_wrong_method_answer(get(texts::skill), "GET"))
        .route("/agent/partner", with_wrong_method_answer(get(texts::partner), "GET"))
        .route("/agent/1claw", with_wrong_method_answer(get(texts::partner), "GET"))
        .route("/agent/{*other}", with_wrong_method_answer(get(texts::skill), "GET"))
        .route("/openapi.json", with_wrong_method_answer(get(openapi::openapi), "GET"))
        .route("/sign/helper", with_wrong_method_answer(get(texts::helper), "GET"))
        .route("/callback", with_wrong_method_answer(post(callback::callback), "POST"))
        .route("/receipt/{id}", with_wrong_method_answer(get(receipt::receipt), "GET"))
        .route("/receipt/", with_wrong_method_answer(get(receipt::missing_id), "GET"))
        .route("/mandate", with_wrong_method_answer(post(mandate::mandate), "POST"))
        .route("/balances", with_wrong_method_answer(post(balances::balances), "POST"))
        .route(
            "/trade",
            with_wrong_method_answer(post(plan_request::request::<TradeInput>), "POST"),
        )
        .route(
            "/trade/status/{id}",
            with_wrong_method_answer(get(plan_request::status::<TradeInput>), "GET"),
        )
        .route("/trade/status/", with_wrong_method_answer(get(missing_id), "GET"))
        .route("/venues", with_wrong_method_answer(post(venues::venues), "POST"))
        .route(
            "/position",
            with_wrong_method_answer(post(plan_request::request::<LoanInput>), "POST"),
        )
        .route(
            "/position/status/{id}",
            with_wrong_method_answer(get(plan_request::status::<LoanInput>), "GET"),
        )
        .route("/position/status/", with_wrong_method_answer(get(missing_id), "GET"))
        .router
        .fallback(not_found)
        .layer(from_fn_with_state(Arc::clone(&api), guard::guard))
        .with_state(api)
}

/// Adds the routes that the edition serves.
struct EditionRouter {
    router: Router<Arc<Api>>,
    paths: Paths,
}

impl EditionRouter {
    fn route(self, path: &str, methods: MethodRouter<Arc<Api>>) -> Self {
        let router =
            if self.paths.contain(path) { self.router.route(path, methods) } else { self.router };
        Self { router, ..self }
    }
}

fn with_wrong_method_answer(
    methods: MethodRouter<Arc<Api>>,
    allowed: &'static str,
) -> MethodRouter<Arc<Api>> {
    methods.fallback(move || async move { Answer::wrong_method(allowed).into_http() })
}

async fn not_found() -> Response<Body> {
    Answer::from(Fault::new(Code::NotFound)).into_http()
}

async fn missing_id() -> Response<Body> {
    Answer::from(Fault::new(Code::MissingRequestId)).into_http()
}
