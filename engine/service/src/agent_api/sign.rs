//! `POST /sign` and `GET /sign/status/{id}`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::json::{Object, Value};
use bursar_core::limits::{FREE_DISK_BYTES, IDEMPOTENCY_KEY_BYTES};
use bursar_core::networks::ChainId;
use bursar_core::text;
use bursar_domain::agents::AgentStatus;
use bursar_domain::command::Ask;
use bursar_domain::idempotency::{Identity, KeyClaim, Prior};
use bursar_domain::{Action, Request, Status};
use bursar_x402::signature::Signature65;
use bursar_x402::v2;

use super::Api;
use super::auth::{Proven, ProvenBy, authenticate, identity};
use super::body;
use super::message::Endpoint;
use super::reply::Answer;
use crate::core::Answered;
use crate::lanes::payments::{PaymentInput, execute, propose};

pub(super) async fn sign(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    let answer = match try_sign(&api, request).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    };
    api.counters.count(&answer);
    answer.into_http()
}

async fn try_sign(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let (parts, body) = request.into_parts();
    let body = body::object(&parts.headers, body).await?;
    let input = read(api, &body)?;
    let view = api.core.view();
    let moment = api.core.now();
    let proven = authenticate(
        &view,
        api.vault.gate(),
        moment.utc,
        Endpoint::Sign,
        api.agent_field,
        &body,
        body.get("signature").and_then(Value::as_str),
    )?;
    let agent = &proven.agent;
    match view.state.status(agent, &moment) {
        AgentStatus::Uncommissioned => return Err(Fault::new(Code::AgentNotCommissioned)),
        AgentStatus::Suspended => return Err(Fault::new(Code::AgentSuspended)),
        AgentStatus::Active | AgentStatus::LimitReached => {}
    }
    if view.state.frozen.is_some() {
        return Err(Fault::new(Code::AgentsFrozen));
    }
    if !api.has_room() {
        return Err(Fault::new(Code::DiskFull));
    }
    let policy = view.state.policy_of(agent);
    let usable = |chain: ChainId| {
        view.state.network_enabled(chain) && policy.is_some_and(|p| p.networks.allows(chain))
    };
    let payment = propose(&input.payment, input.request_url, usable, &api.ports).await?;
    let ask = Ask {
        agent: agent.id.clone(),
        identity: identity_of(&proven, &input.payment, input.idempotency_key.as_deref()),
        payment,
        prior: Prior::default(),
        id: RequestId::from_entropy(api.random()?),
        nonce: api.random()?,
    };
    let outcome = api.core.act(Action::Ask(Box::new(ask))).await.map_err(|fault| {
        // Locked while the ask was on its way: an HMAC agent is not told.
        let hidden = fault.code == Code::WalletLocked && matches!(proven.by, ProvenBy::Hmac { .. });
        if hidden { Fault::new(Code::AuthFailed) } else { fault }
    })?;
    let record = match outcome.answer {
        Answered::Request(record) | Answered::Earlier(record) => record,
        Answered::Done => return Err(Fault::new(Code::InternalError)),
    };
    let mut signature = None;
    for slip in outcome.slips {
        // A signer that refuses, or a freeze in between: the authorization stays, a poll tells the rest.
        signature = execute(&api.execution, slip).await.unwrap_or(None);
    }
    let reached = api.ports.faults.reach("reply.before");
    reached.map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
    Ok(told(&record, signature.as_ref(), &moment))
}

/// What `/sign` reads of a body.
struct Input {
    payment: PaymentInput,
    request_url: Option<String>,
    idempotency_key: Option<String>,
}

/// Judges the shape alone: it says nothing of any agent.
fn read(api: &Api, body: &Object) -> Result<Input, Fault> {
    let agent = body.get(api.agent_field).and_then(Value::as_str).unwrap_or("");
    if agent.is_empty() {
        return Err(Fault::because(Code::MissingAgentId, format!("Send {}.", api.agent_field)));
    }
    let payment = match (body.get("payment_required"), body.get("x402_data")) {
        (Some(_), Some(_)) => {
            return Err(Fault::because(
                Code::InvalidRequest,
                "Send payment_required or x402_data, not both.",
            ));
        }
        (Some(Value::String(text)), None) => PaymentInput::Header(text.clone()),
        (Some(_other), None) => return Err(Fault::new(Code::InvalidPaymentRequired)),
        (None, Some(data @ Value::Object(_))) => PaymentInput::Data(data.clone()),
        (None, Some(_other)) => return Err(Fault::new(Code::InvalidX402Data)),
        (None, None) => return Err(Fault::new(Code::MissingX402Data)),
    };
    let request_url = body::text(body, "request_url")?.filter(|url| !url.is_empty());
    let key = body::text(body, "idempotency_key")?.filter(|key| !key.is_empty());
    if key.is_some_and(|key| {
        key.len() > IDEMPOTENCY_KEY_BYTES || !key.bytes().all(|b| b.is_ascii_graphic())
    }) {
        return Err(Fault::because(
            Code::InvalidRequest,
            "idempotency_key has 1 to 128 visible ASCII characters.",
        ));
    }
    Ok(Input {
        payment,
        request_url: request_url.map(str::to_owned),
        idempotency_key: key.map(str::to_owned),
    })
}

/// What makes this ask the same as another one. In hmac mode it is the signature: a key outside it must
/// not multiply a payment.
fn identity_of(proven: &Proven, payment: &PaymentInput, key: Option<&str>) -> Identity {
    if let ProvenBy::Hmac { day, digest } = &proven.by {
        return Identity::Hmac { day: *day, digest: *digest };
    }
    let (agent, endpoint) = (proven.agent.id.as_str().as_bytes(), Endpoint::Sign.text().as_bytes());
    let content = match payment {
        PaymentInput::Header(text) => identity(&[b"header", text.as_bytes()]),
        PaymentInput::Data(data) => {
            identity(&[b"data", bursar_core::canonical::to_python(data).as_bytes()])
        }
    };
    let key = key.map(str::as_bytes);
    let digest = match key {
        Some(key) => identity(&[b"bearer", agent, endpoint, &content, key]),
        None => identity(&[b"bearer", agent, endpoint, &content]),
    };
    let claim =
        key.map(|key| KeyClaim { name: identity(&[b"key", agent, endpoint, key]), content });
    Identity::Bearer { digest, key: claim }
}

pub(super) async fn status(
    State(api): State<Arc<Api>>,
    id: Result<Path<String>, PathRejection>,
) -> Response<Body> {
    // What is no text once its percent signs are read is no id either.
    let id = id.map_or(String::new(), |Path(id)| id);
    match try_status(&api, &id).await {
        Ok(answer) => answer,
        Err(fault) => Answer::from(fault),
    }
    .into_http()
}

async fn try_status(api: &Api, id: &str) -> Result<Answer, Fault> {
    let id: RequestId = id.parse().map_err(|_bad| Fault::new(Code::InvalidRequestId))?;
    let view = api.core.view();
    let moment = api.core.now();
    let record = match view.state.held.get(&id) {
        Some(held) => Arc::clone(held),
        None => match api.core.look(id).await {
            Ok(found) => found.ok_or(Fault::new(Code::RequestNotFound))?,
            // The core decides nothing any more; what is on disk can still be told.
            Err(_failed) => api
                .core
                .reader()
                .request(id)
                .ok()
                .flatten()
                .map(Arc::new)
                .ok_or(Fault::new(Code::RequestNotFound))?,
        },
    };
    Ok(match &record.status {
        Status::Authorized { .. } if !record.is_redeemable(moment.utc) => {
            let body = Object::new()
                .with("status", "success")
                .with("message", Code::AlreadySigned.sentence())
                .with("transaction_id", record.id.to_string())
                .with("code", Code::AlreadySigned.text());
            Answer::new(200, body)
        }
        // A poll tells an outcome: it succeeds, whatever the outcome is.
        Status::Refused { refusal, .. } => {
            let body = rejected(&record, refusal.sentence()).with("code", refusal.code.text());
            Answer::new(200, body)
        }
        Status::Held { deadline, .. } if deadline.has_passed(&moment) => expired(&record),
        Status::Held { .. }
        | Status::Authorized { .. }
        | Status::Denied { .. }
        | Status::Expired { .. } => told(&record, None, &moment),
    })
}

/// A request as its agent is told of it. `signature` is one that is not in the record yet.
fn told(
    record: &Request,
    signature: Option<&Signature65>,
    moment: &bursar_core::time::Moment,
) -> Answer {
    match &record.status {
        Status::Authorized { terms, signature: recorded, .. } => {
            let known = recorded.as_ref().or(signature);
            match known.filter(|_known| record.is_redeemable(moment.utc)) {
                Some(signature) => {
                    let header = v2::payment_header(&record.ask.echo, terms, signature);
                    let body = Object::new()
                        .with("status", "success")
                        .with("x402_version", 2u64)
                        .with("header_name", v2::HEADER_NAME)
                        .with("header_value", header)
                        .with("transaction_id", record.id.to_string());
                    Answer::new(200, body)
                }
                None => {
                    let body = Object::new()
                        .with("status", "executing")
                        .with("request_id", record.id.to_string());
                    Answer::new(202, body)
                }
            }
        }
        Status::Held { .. } => {
            let body = Object::new()
                .with("status", "pending")
                .with("message", Code::ApprovalRequired.sentence())
                .with("request_id", record.id.to_string())
                .with("code", Code::ApprovalRequired.text())
                .with("amount_micro", record.ask.usd.0)
                .with("agent_id", record.agent.as_str())
                .with("created_at", text::utc(record.created));
            Answer::new(202, body)
        }
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
            answer.body.insert("transaction_id", record.id.to_string());
            answer
        }
        Status::Denied { reason, .. } => {
            let reason = reason.as_deref().unwrap_or(Code::RequestDenied.sentence());
            Answer::new(200, rejected(record, reason))
        }
        Status::Expired { .. } => expired(record),
    }
}

fn expired(record: &Request) -> Answer {
    let code = Code::RequestExpired;
    Answer::new(200, rejected(record, code.sentence()).with("code", code.text()))
}

fn rejected(record: &Request, reason: &str) -> Object {
    Object::new()
        .with("status", "rejected")
        .with("reason", reason)
        .with("transaction_id", record.id.to_string())
}

impl Api {
    /// Whether the disk has room for more records.
    fn has_room(&self) -> bool {
        self.ports.disk.free_bytes(&self.folder).is_ok_and(|free| free >= FREE_DISK_BYTES)
    }

    fn random<const N: usize>(&self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.ports
            .random
            .fill(&mut bytes)
            .map_err(|error| Fault::new(Code::InternalError).with_detail(error))?;
        Ok(bytes)
    }
}
