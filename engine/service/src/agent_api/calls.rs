//! Logs one line per call. The line contains no path, query, id, proof or body: a whole request id is a capability.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::Response;
use bursar_core::codes::Code;

use super::rate::client_key;

/// `route` is the path pattern of the matched route; `None` if no route matched or the HTTP edge refused the request.
pub(super) fn log(
    method: &str,
    route: Option<&str>,
    response: &Response<Body>,
    took_ms: u64,
    peer: IpAddr,
) {
    // Log only known methods, because a caller may invent a method of any length.
    let known = matches!(method, "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS");
    tracing::debug!(
        method = if known { method } else { "-" },
        route = route.unwrap_or("-"),
        status = response.status().as_u16(),
        code = response.extensions().get::<Code>().map_or("-", |code| code.text()),
        ms = took_ms,
        peer = %client_key(peer),
        "call"
    );
}
