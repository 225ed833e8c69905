//! `GET /sign/status/{id}`, and the answers that describe a request to its agent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{Object, Value};
use bursar_core::text;
use bursar_core::time::Moment;
use bursar_domain::identity::Identity;
use bursar_domain::prompts::WaitEnd;
use bursar_domain::{Action, Request, Status};
use bursar_x402::payment_header;
use bursar_x402::signature::Signature65;

use crate::agent_api::api::Api;
use crate::agent_api::path_id::{PathId, text_of};
use crate::agent_api::reply::{Answer, Outcome};
use crate::edition::AgentWire;

pub(in crate::agent_api) async fn status(
    State(api): State<Arc<Api>>,
    id: PathId,
) -> Response<Body> {
    match try_status(&api, &text_of(id)).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    }
    .into_http()
}

async fn try_status(api: &Api, id: &str) -> Result<Answer, Fault> {
    let id: RequestId = id.parse().map_err(|_bad| Fault::new(Code::InvalidRequestId))?;
    let moment = api.core.now();
    let record = api.request(id).await.filter(|record| record.ask.payment().is_some());
    let record = record.ok_or(Fault::new(Code::RequestNotFound))?;
    Ok(match &record.status {
        Status::Authorized { .. } if !record.is_redeemable(moment.utc) => {
            let body = Object::new()
                .with("status", "success")
                .with("message", Code::AlreadySigned.sentence())
                .with("transaction_id", record.id.to_string())
                .with("code", Code::AlreadySigned.text());
            Answer::new(200, body).with_code(Code::AlreadySigned)
        }
        // The poll succeeds, whatever the outcome of the request.
        Status::Refused { refusal, .. } => {
            answer_rejected(&record, refusal.sentence(), refusal.code)
        }
        Status::Held { .. } if record.is_hold_over(&moment) => {
            // Commit the expiry before reporting it: a clock that is set back must not revive the request. If the
            // commit fails, report the expiry nevertheless.
            if let Err(fault) = api.core.act(Action::Tick).await {
                tracing::warn!(code = %fault.code, "could not record that a request expired");
            }
            answer_expired(&record)
        }
        Status::AwaitingDevice(_) if record.is_wait_over(&moment) => {
            // The request is pending until the expiry is on disk: if the clock is set back, the device may still sign
            // it.
            match api.core.act(Action::Tick).await {
                Ok(_recorded) => answer_not_signed(&record, WaitEnd::TooLate),
                Err(fault) => {
                    tracing::warn!(code = %fault.code, "could not record that a request was not signed in time");
                    describe(&api.edition.wire, &record, None, &moment)
                }
            }
        }
        Status::Held { .. }
        | Status::Authorized { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. }
        | Status::Executing(_)
        | Status::Ended(_)
        | Status::Denied { .. }
        | Status::Expired { .. } => describe(&api.edition.wire, &record, None, &moment),
    })
}

/// Describes a request to its agent. `signature` is given if the record does not contain it yet.
pub(super) fn describe(
    wire: &AgentWire,
    record: &Request,
    signature: Option<&Signature65>,
    moment: &Moment,
) -> Answer {
    let not_found = || Answer::from(Fault::new(Code::RequestNotFound));
    let Some(payment) = record.ask.payment() else { return not_found() };
    match &record.status {
        Status::Executing(_) | Status::Ended(_) => not_found(),
        Status::Authorized { terms, signature: recorded, .. } => {
            let known = recorded.as_ref().or(signature);
            match known.filter(|_known| record.is_redeemable(moment.utc)) {
                Some(signature) => {
                    let echo = &payment.echo;
                    let header = payment_header(echo, terms, signature);
                    let mut body = Object::new().with("status", "success");
                    if wire.names_version {
                        body.insert("x402_version", echo.version().number());
                    }
                    let body = body
                        .with("header_name", echo.header_name())
                        .with("header_value", header)
                        .with("transaction_id", record.id.to_string());
                    Answer::new(200, body)
                }
                None => answer_executing(record),
            }
        }
        Status::Held { .. } => {
            answer_pending(wire, record, Code::ApprovalRequired.sentence(), WAITS_FOR_OPERATOR)
        }
        Status::AwaitingDevice(turn) if turn.prompt.is_none() => {
            answer_pending(wire, record, AWAITS_DEVICE, WAITS_FOR_DEVICE)
        }
        Status::AwaitingDevice(_) => {
            let mut answer = answer_executing(record);
            answer.body.insert("waits_for", WAITS_FOR_DEVICE);
            answer
        }
        Status::NotSigned { end, .. } => answer_not_signed(record, *end),
        Status::Refused { refusal, .. } => {
            let mut answer =
                Answer::refusal(&Fault::because(refusal.code, refusal.sentence().to_owned()));
            if let Some(requested) = refusal.requested {
                answer.body.insert("requested_micro", requested.0);
            }
            if let Some(bound) = refusal.bound {
                let name = match refusal.code {
                    Code::ExceedsPerRequestMax => "max_micro",
                    _daily => "remaining_micro",
                };
                answer.body.insert(name, bound.0);
            }
            if refusal.code == Code::PaymentExpired {
                answer.body.insert("hint", pay_again_hint(record));
            }
            answer.body.insert("transaction_id", record.id.to_string());
            answer
        }
        Status::Denied { reason, .. } => {
            let code = Code::RequestDenied;
            let reason = reason.as_deref().unwrap_or(code.sentence());
            answer_rejected(record, reason, code)
        }
        Status::Expired { .. } => answer_expired(record),
    }
}

/// The message of a request that is allowed and waits for its device.
const AWAITS_DEVICE: &str = "Waits for the operator's hardware device";

/// The values of `waits_for`: the operator's decision, or a signature on the operator's device.
const WAITS_FOR_OPERATOR: &str = "operator";
const WAITS_FOR_DEVICE: &str = "device";

fn answer_pending(wire: &AgentWire, record: &Request, message: &str, waits_for: &str) -> Answer {
    let body = Object::new()
        .with("status", "pending")
        .with("message", message)
        .with("waits_for", waits_for)
        .with("request_id", record.id.to_string())
        .with("code", Code::ApprovalRequired.text())
        .with("amount_micro", amount_micro(record))
        .with(wire.field, record.agent.as_str())
        .with("created_at", text::utc(record.created));
    Answer::new(202, body).with_code(Code::ApprovalRequired).with_outcome(Outcome::InProgress)
}

fn answer_executing(record: &Request) -> Answer {
    let body = Object::new().with("status", "executing").with("request_id", record.id.to_string());
    Answer::new(202, body).with_outcome(Outcome::InProgress)
}

fn answer_not_signed(record: &Request, end: WaitEnd) -> Answer {
    let mut answer = answer_rejected(record, end.sentence(), end.code());
    // Suggest a new request only after a timeout: a refusal on the device is a person's decision, like a denial.
    if end == WaitEnd::TooLate {
        answer.body.insert("hint", pay_again_hint(record));
    }
    answer
}

/// Creates the answer for a payment that is already settled: no second header, and a hint how to pay again.
pub(super) fn answer_settled(record: &Request) -> Answer {
    let mut answer = Answer::refusal(&Fault::new(Code::PaymentSettled));
    answer.body.insert("previous_transaction_id", record.id.to_string());
    answer.body.insert("hint", pay_again_hint(record));
    answer
}

/// Returns the hint for an agent that wants to pay again.
fn pay_again_hint(record: &Request) -> &'static str {
    match &record.identity {
        Identity::Hmac { .. } => "To pay again, sign a new request with a new timestamp.",
        Identity::Bearer { .. } => "To pay again, send a new idempotency_key.",
    }
}

/// Returns the amount in micro-dollars. An unknown amount is null, never zero.
fn amount_micro(record: &Request) -> Value {
    let priced = record.ask.payment().filter(|payment| !payment.is_unpriced());
    priced.map_or(Value::Null, |payment| Value::from(payment.usd.0))
}

fn answer_expired(record: &Request) -> Answer {
    let code = Code::RequestExpired;
    let mut answer = answer_rejected(record, code.sentence(), code);
    answer.body.insert("hint", pay_again_hint(record));
    answer
}

fn answer_rejected(record: &Request, reason: &str, code: Code) -> Answer {
    let body = Object::new()
        .with("status", "rejected")
        .with("reason", reason)
        .with("transaction_id", record.id.to_string())
        .with("code", code.text());
    Answer::new(200, body).with_code(code).with_outcome(Outcome::Refused)
}
