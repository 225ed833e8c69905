//! `GET /health`, `POST /ping`, and `GET` and `POST /status`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, Response};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::AgentId;
use bursar_core::json::Object;
use bursar_core::status::AgentStatus;
use bursar_core::time::Utc;

use super::admit::{Incoming, prove};
use super::api::Api;
use super::message::Endpoint;
use super::reply::Answer;

/// Liveness. Reveals nothing about the wallet.
pub(super) async fn health() -> Response<Body> {
    Answer::new(200, Object::new().with("status", "ok")).into_http()
}

pub(super) async fn ping(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_ping(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_ping(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    let id = incoming.named_agent(api)?;
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

/// Describes the process, and with a proof also the agent. Without a proof the answer does not reveal whether
/// the wallet is locked.
async fn try_status(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let header = |headers: &HeaderMap, name: &str| {
        let value = headers.get(name);
        value.and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let headers = request.headers();
    let named = (header(headers, "x-agent-id"), header(headers, "x-agent-signature"));
    let mut incoming = Incoming::read(api, request).await?;
    if let (Some(id), Some(proof)) = named {
        incoming.body.insert(api.edition.wire.field, id);
        incoming.body.insert("signature", proof);
    }
    let body = &incoming.body;
    let mut answer = Object::new()
        .with("service", "Bursar")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("status", "ready")
        .with("signed", api.counters.signed_count())
        .with("rejected", api.counters.rejected_count())
        .with("started_at", local_time(api.started, api.started_offset_s));
    if api.edition.has_trades_or_loans() {
        answer.insert("traded", api.execution_counter.total());
        answer.insert("trade_rejected", api.counters.rejected_trade_count());
    }
    let asked = body.get(api.edition.wire.field).is_some() || body.get("signature").is_some();
    if asked {
        answer.insert("agent", agent(api, &incoming)?);
    }
    Ok(Answer::new(200, answer))
}

fn agent(api: &Api, incoming: &Incoming) -> Result<Object, Fault> {
    let caller = prove(api, Endpoint::Read, incoming)?;
    let (view, moment) = (&caller.view, &caller.moment);
    let agent = caller.agent();
    let spent = view.state.spent(agent, moment).payment;
    let described = Object::new()
        .with(api.edition.wire.field, agent.id.as_str())
        .with("name", agent.name.as_str())
        .with("status", view.state.status(agent, moment).text())
        .with("frozen", view.state.frozen.is_some());
    let Some(policy) = view.state.policy_of(agent) else { return Ok(described) };
    let payments = &policy.payments;
    Ok(described
        .with("spent_today_micro", spent.0)
        .with("reserved_micro", agent.reserved.payment.0)
        .with(
            "remaining_today_micro",
            payments.daily.left_after(spent).left_after(agent.reserved.payment).0,
        )
        .with("renews_at", super::mandate::renews_at(api, &caller))
        .with("renews_at_unknown_reason", super::mandate::renews_at_unknown_reason(&caller))
        .with("daily_limit_micro", payments.daily.0)
        .with("per_request_max_micro", payments.per_request.0)
        .with("auto_approve_below_micro", payments.auto_below.0))
}

/// Formats a local time like `2026-11-20 06:00:00`.
fn local_time(utc: Utc, offset_s: i32) -> String {
    let local = utc.seconds().saturating_add(i64::from(offset_s));
    match jiff::Timestamp::from_second(local) {
        Ok(stamp) => stamp.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_beyond_the_calendar) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_shows_the_start_in_local_time() {
        let second = Utc::from_seconds(1_767_225_599);
        assert_eq!(local_time(second, 0), "2025-12-31 23:59:59");
        assert_eq!(local_time(second, 3_600), "2026-01-01 00:59:59");
        assert_eq!(local_time(second, -3_600), "2025-12-31 22:59:59");
        assert_eq!(local_time(Utc(i64::MAX), i32::MAX), "");
    }
}
