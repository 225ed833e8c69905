//! Answers who is not let in.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use bursar_serve::access::Refusal;

use super::{Api, answers, later};

/// Lets a request in, or answers it.
pub(super) async fn guard(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|ConnectInfo(peer)| peer.ip());
    match api.access.admit(request.headers(), peer) {
        Ok(_caller) => next.run(request).await,
        Err(Refusal::NoKey) => {
            let text =
                "Send an API key of this facilitator, as Authorization: Bearer or as X-API-Key.";
            answers::error(StatusCode::UNAUTHORIZED, text)
        }
        Err(Refusal::TooMany) => {
            let text = "Too many requests: wait for Retry-After seconds.";
            later(answers::error(StatusCode::TOO_MANY_REQUESTS, text))
        }
    }
}
