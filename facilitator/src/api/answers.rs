//! The responses, in the form that x402 clients read.

use alloy_primitives::Address;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bursar_x402::settlement::{REPEATED, SettlementRequest};
use serde_json::{Map, Value, json};

use crate::metrics::Route;
use crate::reason::{Reason, Refused};
use crate::settle::door::End;

/// A JSON body to send.
pub(super) type Body = Value;

/// The reason code for an invalid body, from the official libraries.
const MALFORMED: &str = "invalid_payload";

pub(super) fn with(status: StatusCode, body: Body) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(super) fn error(status: StatusCode, text: &str) -> Response {
    with(status, json!({ "error": text }))
}

/// The response for a valid payment.
pub(super) fn good(payer: Address) -> Response {
    with(StatusCode::OK, json!({ "isValid": true, "payer": payer }))
}

/// The response for a rejected payment.
pub(super) fn bad(refused: &Refused) -> Response {
    with(StatusCode::OK, bad_body(refused))
}

pub(super) fn bad_body(refused: &Refused) -> Body {
    let mut body = Map::new();
    body.insert("isValid".to_owned(), json!(false));
    body.insert("invalidReason".to_owned(), json!(refused.reason.text()));
    body.insert("invalidMessage".to_owned(), json!(refused.message));
    if let Some(payer) = refused.payer {
        body.insert("payer".to_owned(), json!(payer));
    }
    Value::Object(body)
}

/// The result label of a settlement, and its response.
pub(super) fn end(request: &SettlementRequest, end: &End) -> (&'static str, Response) {
    match end {
        End::Settled { hash, payer, repeated, right: _ } => {
            let body = json!({
                "success": true, "transaction": hash, "network": request.asked.network,
                "payer": payer,
            });
            let mut response = with(StatusCode::OK, body);
            if *repeated {
                response.headers_mut().insert(REPEATED, HeaderValue::from_static("true"));
            }
            ("good", response)
        }
        End::Pending { hash, payer } => {
            let refused = Refused::from(Reason::Pending).of(*payer);
            let mut body = failed_body(request, &refused);
            body["transaction"] = json!(hash);
            (Reason::Pending.text(), failure(request.short, body))
        }
        End::Refused(refused) => {
            (refused.reason.text(), failure(request.short, failed_body(request, refused)))
        }
    }
}

/// The response of a failed settlement. Older clients, which send short requests, check only the status and would
/// deliver unpaid.
pub(super) fn failure(short: bool, mut body: Body) -> Response {
    if !short {
        return with(StatusCode::OK, body);
    }
    let text = body["errorMessage"].clone();
    body["error"] = text;
    with(StatusCode::PAYMENT_REQUIRED, body)
}

pub(super) fn failed_body(request: &SettlementRequest, refused: &Refused) -> Body {
    failed_body_of(Some(&request.asked.network), refused)
}

pub(super) fn failed_body_of(network: Option<&str>, refused: &Refused) -> Body {
    let mut body = Map::new();
    body.insert("success".to_owned(), json!(false));
    body.insert("transaction".to_owned(), json!(""));
    body.insert("network".to_owned(), json!(network.unwrap_or_default()));
    body.insert("errorReason".to_owned(), json!(refused.reason.text()));
    body.insert("errorMessage".to_owned(), json!(refused.message));
    if let Some(payer) = refused.payer {
        body.insert("payer".to_owned(), json!(payer));
    }
    if let Some(hash) = refused.settled_in {
        body.insert("extra".to_owned(), json!({ "transaction": hash }));
    }
    Value::Object(body)
}

/// The response for an invalid request. Official clients read reasons from answers of any status if they have the form
/// of a verdict.
pub(super) fn malformed(status: StatusCode, route: Route, why: &str) -> Response {
    let body = match route {
        Route::verify => json!({
            "error": why, "isValid": false, "invalidReason": MALFORMED, "invalidMessage": why,
        }),
        Route::settle => json!({
            "error": why, "success": false, "transaction": "", "network": "",
            "errorReason": MALFORMED, "errorMessage": why,
        }),
    };
    with(status, body)
}

/// Adds `Retry-After`.
pub(super) fn later(mut response: Response) -> Response {
    const RETRY_AFTER: HeaderName = header::RETRY_AFTER;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
    response
}
