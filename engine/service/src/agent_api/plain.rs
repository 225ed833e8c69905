//! `GET /health`, `POST /ping` and `/status`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::json::{Object, Value};
use bursar_core::time::Utc;
use bursar_domain::agents::AgentStatus;

use super::Api;
use super::auth::authenticate;
use super::body;
use super::message::Endpoint;
use super::reply::Answer;

/// Liveness; says nothing of the wallet.
pub(super) async fn health() -> Response<Body> {
    Answer::new(200, Object::new().with("status", "ok")).into_http()
}

pub(super) async fn ping(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_ping(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_ping(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let (parts, body) = request.into_parts();
    let body = body::object(&parts.headers, body).await?;
    let id = body.get(api.agent_field).and_then(Value::as_str).unwrap_or("");
    if id.is_empty() {
        return Err(Fault::because(Code::MissingAgentId, format!("Send {}.", api.agent_field)));
    }
    let view = api.core.view();
    let agent = id.parse::<AgentId>().ok().and_then(|id| view.state.agents.get(&id));
    let agent = agent.ok_or(Fault::new(Code::AgentNotFound))?;
    let refuse = |code: Code| {
        let mut answer = Answer::refusal(&Fault::new(code));
        answer.body.insert("agent_name", agent.name.as_str());
        answer
    };
    let status = view.state.status(agent, &api.core.now());
    Ok(match status {
        AgentStatus::Uncommissioned => refuse(Code::AgentNotCommissioned),
        AgentStatus::Suspended => refuse(Code::AgentSuspended),
        AgentStatus::Active | AgentStatus::LimitReached => Answer::new(
            200,
            Object::new()
                .with("status", "ready")
                .with("agent_name", agent.name.as_str())
                .with("agent_status", status.text()),
        ),
    })
}

pub(super) async fn status(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_status(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

/// Without a proof: the process alone, the same whether the wallet is open or not. With one: the agent.
async fn try_status(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let (parts, body) = request.into_parts();
    let mut body = body::object(&parts.headers, body).await?;
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    if let (Some(id), Some(proof)) = (header("x-agent-id"), header("x-agent-signature")) {
        body.insert(api.agent_field, id);
        body.insert("signature", proof);
    }
    let mut answer = Object::new()
        .with("service", "Bursar")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("status", "ready")
        .with("signed", api.counters.signed())
        .with("rejected", api.counters.rejected())
        .with("traded", 0u64)
        .with("trade_rejected", 0u64)
        .with("started_at", local_time(api.started, api.started_offset_s));
    let asked = body.get(api.agent_field).is_some() || body.get("signature").is_some();
    if asked {
        answer.insert("agent", agent(api, &body)?);
    }
    Ok(Answer::new(200, answer))
}

fn agent(api: &Api, body: &Object) -> Result<Object, Fault> {
    let view = api.core.view();
    let moment = api.core.now();
    let proven = authenticate(
        &view,
        api.vault.gate(),
        moment.utc,
        Endpoint::Read,
        api.agent_field,
        body,
        body.get("signature").and_then(Value::as_str),
    )?;
    let agent = &proven.agent;
    let spent = view.state.spent(agent, &moment);
    let described = Object::new()
        .with(api.agent_field, agent.id.as_str())
        .with("name", agent.name.as_str())
        .with("status", view.state.status(agent, &moment).text());
    let Some(policy) = view.state.policy_of(agent) else { return Ok(described) };
    let payments = &policy.payments;
    Ok(described
        .with("spent_today_micro", spent.0)
        .with("reserved_micro", agent.reserved.0)
        .with(
            "remaining_today_micro",
            payments.daily.left_after(spent).left_after(agent.reserved).0,
        )
        .with("daily_limit_micro", payments.daily.0)
        .with("per_request_max_micro", payments.per_request.0)
        .with("auto_approve_below_micro", payments.auto_below.0))
}

/// Local wall time as the original writes it.
fn local_time(utc: Utc, offset_s: i32) -> String {
    let local = utc.seconds().saturating_add(i64::from(offset_s));
    match jiff::Timestamp::from_second(local) {
        Ok(stamp) => stamp.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_beyond_the_calendar) => String::new(),
    }
}
