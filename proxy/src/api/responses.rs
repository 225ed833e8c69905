//! Formats HTTP responses.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::Ordering;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bursar_serve::http::Refusal;
use bursar_x402::{Version, header as x402};
use futures::stream::{self, StreamExt};
use serde_json::{Map, Value, json};

use crate::fault::{Code, Fault};
use crate::offer::Challenge;
use crate::sell::{AnswerHead, PaidStream, PaymentRefusal};
use crate::upstream::Passthrough;

const PAYMENT_REQUIRED_HEADER: HeaderName = HeaderName::from_static("payment-required");
const RECEIPT_HEADER: HeaderName = HeaderName::from_static("payment-response");
/// Version 1 clients read the receipt from this header.
const RECEIPT_HEADER_V1: HeaderName = HeaderName::from_static("x-payment-response");
const PRICE_HEADER: HeaderName = HeaderName::from_static("x-price-usd");
/// OpenAI clients obey this header.
const SHOULD_RETRY_HEADER: HeaderName = HeaderName::from_static("x-should-retry");
const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

pub(super) fn json(status: StatusCode, body: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

pub(super) fn challenge(status: StatusCode, challenge: Challenge, usd: &str) -> Response {
    let mut response = json(status, challenge.body);
    let headers = response.headers_mut();
    put(headers, PAYMENT_REQUIRED_HEADER, &challenge.header);
    put(headers, PRICE_HEADER, usd);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A refusal without the result of a payment.
pub(super) fn error(fault: &Fault) -> Response {
    envelope(fault, None)
}

/// A refusal by the HTTP edge. It has our code for the refusal's kind, with the status and text of the edge.
pub(super) fn edge_refusal(why: Refusal) -> Response {
    let code = match why {
        Refusal::Busy => return error(&Fault::of(Code::Busy)),
        Refusal::BodyTooLarge => Code::TooLarge,
        Refusal::HeadTooLarge => Code::HeadTooLarge,
        Refusal::Timeout => Code::RequestTimeout,
        Refusal::Malformed | Refusal::Target | Refusal::Length => Code::InvalidRequest,
    };
    let error = json!({
        "message": why.text(), "type": code.kind(), "param": null, "code": code.text(),
    });
    let mut response = json(why.status(), json!({ "error": error }).to_string());
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

/// A refusal of a request with a payment.
pub(super) fn refusal(refusal: &PaymentRefusal, version: Version) -> Response {
    let mut x402 = Map::new();
    x402.insert("charged".to_owned(), json!(refusal.charged.text()));
    let receipt = refusal.receipt.as_deref();
    if let Some(receipt) = receipt.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        x402.insert("receipt".to_owned(), receipt);
    }
    let mut response = envelope(&refusal.fault, Some(Value::Object(x402)));
    if let Some(receipt) = receipt {
        put_receipt(response.headers_mut(), version, receipt);
    }
    response
}

/// Formats an error as OpenAI clients read it: the object `error`, and next to it our object `x402`.
fn envelope(fault: &Fault, x402: Option<Value>) -> Response {
    let code = fault.code;
    let mut body = json!({
        "error": {
            "message": fault.to_string(), "type": code.kind(), "param": fault.param,
            "code": code.text(),
        },
    });
    if let Some(x402) = x402 {
        body["x402"] = x402;
    }
    let mut response = json(code.status(), body.to_string());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(retry) = code.retry() {
        let text = if retry { "true" } else { "false" };
        headers.insert(SHOULD_RETRY_HEADER, HeaderValue::from_static(text));
    }
    if let Some(seconds) = fault.retry_after() {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A paid whole answer. `before_end` runs before the last byte is sent.
pub(super) fn whole_answer(
    head: AnswerHead,
    version: Version,
    body: Bytes,
    before_end: Option<impl Future<Output = ()> + Send + 'static>,
) -> Response {
    let Some(before_end) = before_end else { return paid_answer(head, version, Body::from(body)) };
    let mut first = body;
    let last = first.split_off(first.len().saturating_sub(1));
    let pieces = stream::iter([first]).chain(stream::once(async move {
        before_end.await;
        last
    }));
    paid_answer(head, version, Body::from_stream(pieces.map(Ok::<_, Infallible>)))
}

/// A paid stream. If the chunks end before the answer does, the connection is cut, because a normal end would look
/// like the end of the answer.
pub(super) fn stream_answer(paid_stream: PaidStream, version: Version) -> Response {
    let PaidStream { head, mut chunks, complete } = paid_stream;
    let pieces = stream::poll_fn(move |context| {
        chunks.poll_recv(context).map(|piece| match piece {
            Some(piece) => Some(Ok(piece)),
            None if complete.load(Ordering::Acquire) => None,
            None => Some(Err(io::Error::other("the stream was cut"))),
        })
    });
    let mut response = paid_answer(head, version, Body::from_stream(pieces));
    // Stops reverse proxies from buffering the stream.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn paid_answer(head: AnswerHead, version: Version, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status(head.status);
    let headers = response.headers_mut();
    put_receipt(headers, version, &head.receipt);
    put(headers, PRICE_HEADER, &head.usd);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private"));
    put_upstream_headers(headers, head.content_type, head.request_id);
    response
}

/// An unpaid response of the upstream.
pub(super) fn passthrough(upstream: Passthrough) -> Response {
    let mut response = Response::new(Body::from(upstream.body));
    *response.status_mut() = status(upstream.status);
    let headers = response.headers_mut();
    put_upstream_headers(headers, upstream.content_type, None);
    if let Some(after) = upstream.retry_after {
        put(headers, header::RETRY_AFTER, &after);
    }
    response
}

fn put_receipt(headers: &mut HeaderMap, version: Version, receipt: &str) {
    let text = x402::encode(receipt);
    put(headers, RECEIPT_HEADER, &text);
    if version == Version::V1 {
        put(headers, RECEIPT_HEADER_V1, &text);
    }
}

fn put_upstream_headers(
    headers: &mut HeaderMap,
    content_type: Option<String>,
    request_id: Option<String>,
) {
    put(headers, header::CONTENT_TYPE, content_type.as_deref().unwrap_or("application/json"));
    if let Some(id) = request_id {
        put(headers, REQUEST_ID_HEADER, &id);
    }
}

/// Sets a header. Leaves it out if the text is not a valid header value.
fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_GATEWAY)
}
