//! Cross-origin requests: lets pages of the configured origins call the API from a browser, and read prices and
//! receipts. Never allows credentials: a payment alone authorizes a request.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::config::CorsOrigins;

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");
/// The headers that clients of x402 and of OpenAI read. Browsers hide all others.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, X-Price-Usd, X-Request-Id, X-Should-Retry, \
     Retry-After",
);
/// How long a browser may keep the answer to a preflight, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Answers preflights of allowed origins, and adds the headers for these origins to all other responses.
pub(super) async fn allow(
    State(origins): State<Arc<CorsOrigins>>,
    request: Request,
    next: Next,
) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && allow_origin_value(&origins, origin.as_ref()).is_some();
    let mut response =
        if is_preflight { preflight(request.headers()) } else { next.run(request).await };
    add_allow_headers(&origins, origin.as_ref(), response.headers_mut());
    response
}

/// Allows every header that the page asks for. OpenAI's clients send many of their own, and x402's clients send
/// `Access-Control-Expose-Headers` as a request header.
fn preflight(request: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(asked) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}

/// Lets pages of an allowed origin read a response.
pub(super) fn add_allow_headers(
    origins: &CorsOrigins,
    origin: Option<&HeaderValue>,
    headers: &mut HeaderMap,
) {
    if let CorsOrigins::Listed(_) = origins {
        // A cache must not return the response for one origin to another.
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(allowed) = allow_origin_value(origins, origin) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
}

/// Returns the value that allows this origin, or `None` if it is not allowed.
fn allow_origin_value(origins: &CorsOrigins, origin: Option<&HeaderValue>) -> Option<HeaderValue> {
    match origins {
        CorsOrigins::None => None,
        CorsOrigins::Any => Some(HeaderValue::from_static("*")),
        CorsOrigins::Listed(listed) => {
            let is_listed = |one: &&HeaderValue| {
                listed.iter().any(|listed| listed.as_bytes() == one.as_bytes())
            };
            origin.filter(is_listed).cloned()
        }
    }
}
