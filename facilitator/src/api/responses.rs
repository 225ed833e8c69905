//! The responses, in the form that x402 clients read.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bursar_x402::settlement::{REPEATED_HEADER, SettlementRequest};
use serde_json::{Map, Value, json};

use crate::api::error_code::ErrorCode;
use crate::metrics::Route;
use crate::reason::{Reason, Rejection};
use crate::settle::intake::SettleOutcome;
use crate::verify::ValidAnswer;

/// A JSON body to send.
pub(super) type Body = Value;

pub(super) fn with_status(status: StatusCode, body: Body) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// The response for a request that gets no verdict, with the code's own sentence.
pub(super) fn error(code: ErrorCode) -> Response {
    error_because(code, code.sentence())
}

/// Returns an error response with a more specific sentence than the code's own.
pub(super) fn error_because(code: ErrorCode, text: &str) -> Response {
    with_status(code.status(), json!({ "error": text, "code": code.text() }))
}

/// The response for a valid payment.
pub(super) fn valid_response(valid: &ValidAnswer) -> Response {
    let mut body = json!({ "isValid": true });
    if let Some(payer) = valid.payer {
        body["payer"] = json!(payer);
    }
    if let Some(extra) = &valid.extra {
        body["extra"] = extra.clone();
    }
    with_status(StatusCode::OK, body)
}

/// The response for a rejected payment.
pub(super) fn invalid_response(rejection: &Rejection) -> Response {
    with_status(StatusCode::OK, invalid_body(rejection))
}

pub(super) fn invalid_body(rejection: &Rejection) -> Body {
    let mut body = Map::new();
    body.insert("isValid".to_owned(), json!(false));
    body.insert("invalidReason".to_owned(), json!(rejection.reason.text()));
    body.insert("invalidMessage".to_owned(), json!(rejection.message));
    if let Some(payer) = rejection.payer {
        body.insert("payer".to_owned(), json!(payer));
    }
    insert_transaction(&mut body, rejection);
    Value::Object(body)
}

/// Names the transaction that settled the payment earlier.
fn insert_transaction(body: &mut Map<String, Value>, rejection: &Rejection) {
    if let Some(hash) = rejection.settled_in {
        body.insert("extra".to_owned(), json!({ "transaction": hash }));
    }
}

/// Returns the label of a settlement's result for the metrics, and the response.
pub(super) fn settle_response(
    request: &SettlementRequest,
    outcome: &SettleOutcome,
) -> (&'static str, Response) {
    match outcome {
        SettleOutcome::Settled { hash, payer, content, repeated, right: _ } => {
            let transaction = hash.map_or_else(|| json!(""), |hash| json!(hash));
            let mut body = json!({
                "success": true, "transaction": transaction,
                "network": request.requirements.network,
            });
            if let Some(payer) = payer {
                body["payer"] = json!(payer);
            }
            if let Some(amount) = content.amount {
                body["amount"] = json!(amount.to_string());
            }
            if let Some(extra) = &content.extra {
                body["extra"] = extra.clone();
            }
            let mut response = with_status(StatusCode::OK, body);
            if *repeated {
                response.headers_mut().insert(REPEATED_HEADER, HeaderValue::from_static("true"));
            }
            ("good", response)
        }
        SettleOutcome::Pending { hash, payer } => {
            let rejection = Rejection::from(Reason::Pending).for_payer(*payer);
            let mut body = settle_failure_body(request, &rejection);
            body["transaction"] = json!(hash);
            (Reason::Pending.text(), settle_failure(request.lacks_extra, body))
        }
        SettleOutcome::Rejected(rejection) => (
            rejection.reason.text(),
            settle_failure(request.lacks_extra, settle_failure_body(request, rejection)),
        ),
    }
}

/// The response of a failed settlement. Older clients send short requests and check only the status: after status 200
/// they would deliver without payment.
pub(super) fn settle_failure(short: bool, mut body: Body) -> Response {
    if !short {
        return with_status(StatusCode::OK, body);
    }
    let text = body["errorMessage"].clone();
    body["error"] = text;
    with_status(StatusCode::PAYMENT_REQUIRED, body)
}

pub(super) fn settle_failure_body(request: &SettlementRequest, rejection: &Rejection) -> Body {
    settle_failure_body_of(Some(&request.requirements.network), rejection)
}

pub(super) fn settle_failure_body_of(network: Option<&str>, rejection: &Rejection) -> Body {
    let mut body = Map::new();
    body.insert("success".to_owned(), json!(false));
    body.insert("transaction".to_owned(), json!(""));
    body.insert("network".to_owned(), json!(network.unwrap_or_default()));
    body.insert("errorReason".to_owned(), json!(rejection.reason.text()));
    body.insert("errorMessage".to_owned(), json!(rejection.message));
    if let Some(payer) = rejection.payer {
        body.insert("payer".to_owned(), json!(payer));
    }
    insert_transaction(&mut body, rejection);
    Value::Object(body)
}

/// The response for an invalid request. It has the form of a verdict, because official clients read the reason of a
/// verdict at any status.
pub(super) fn malformed_response(code: ErrorCode, route: Route, why: &str) -> Response {
    // Official libraries use this name for every invalid request.
    let reason = ErrorCode::InvalidPayload.text();
    let body = match route {
        Route::verify => json!({
            "error": why, "code": code.text(), "isValid": false, "invalidReason": reason,
            "invalidMessage": why,
        }),
        Route::settle => json!({
            "error": why, "code": code.text(), "success": false, "transaction": "", "network": "",
            "errorReason": reason, "errorMessage": why,
        }),
    };
    with_status(code.status(), body)
}

/// Adds `Retry-After` for a condition of unknown duration.
pub(super) fn with_retry_after(response: Response) -> Response {
    retry_after(response, 2)
}

/// Adds `Retry-After`.
pub(super) fn retry_after(mut response: Response, seconds: u64) -> Response {
    const RETRY_AFTER: HeaderName = header::RETRY_AFTER;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}
