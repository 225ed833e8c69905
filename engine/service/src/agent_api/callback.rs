//! `POST /callback`: an agent reports the outcome of a payment.

use std::sync::Arc;

use alloy_primitives::B256;
use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::Response;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::{AgentId, RequestId};
use bursar_core::json::{Object, Value};
use bursar_core::limits::REPORT_TEXT_BYTES_MAX;
use bursar_domain::Action;
use bursar_domain::command::{Report, ReportContext};
use bursar_domain::settlement::{ReportContent, ReportKind};

use super::admit::{Incoming, admit, bearer_identity};
use super::api::Api;
use super::body;
use super::message::Endpoint;
use super::reply::Answer;
use crate::core::ActionAnswer;

pub(super) async fn callback(State(api): State<Arc<Api>>, request: HttpRequest) -> Response<Body> {
    try_callback(&api, request).await.unwrap_or_else(Answer::from).into_http()
}

async fn try_callback(api: &Api, request: HttpRequest) -> Result<Answer, Fault> {
    let incoming = Incoming::read(api, request).await?;
    incoming.named_agent(api)?;
    let (id, content) = read(&incoming)?;
    let has_proof = incoming.body.get("signature").is_some_and(|proof| *proof != Value::Null);
    let caller = if has_proof || !api.edition.wire.unsigned_callback {
        Some(admit(api, Endpoint::Callback, &incoming)?)
    } else {
        incoming.count_unproven(api)?;
        None
    };
    if api.disk_room.is_short() {
        return Err(Fault::new(Code::DiskFull));
    }
    let (agent, identity) = match &caller {
        Some(caller) => {
            (caller.agent().id.clone(), caller.identity(Endpoint::Callback, id.as_bytes()))
        }
        None => {
            let agent = incoming.named_agent(api)?.parse();
            let agent: AgentId = agent.map_err(|_bad| Fault::new(Code::AuthFailed))?;
            let identity = bearer_identity(&agent, Endpoint::Callback, id.as_bytes());
            (agent, identity)
        }
    };
    let report = Report {
        agent,
        identity,
        id,
        content,
        is_proven: caller.is_some(),
        check_chain: api.verifies_settlements(),
        context: ReportContext::default(),
    };
    incoming.time.claim()?;
    let reported = api.core.act(Action::Report(Box::new(report))).await;
    let outcome = reported.map_err(|fault| match &caller {
        Some(caller) => caller.hide_lock(fault),
        None => hide_state(fault),
    })?;
    let ActionAnswer::Reported(stage) = outcome.answer else {
        return Err(Fault::new(Code::InternalError));
    };
    let body = Object::new()
        .with("status", "ok")
        .with("transaction_id", id.to_string())
        .with("new_status", stage.text());
    Ok(Answer::new(200, body))
}

/// Converts a fault of the core for a caller without a proof. All that depend on wallet, agents and payments are one
/// answer, so the caller learns nothing about them.
fn hide_state(fault: Fault) -> Fault {
    let is_hidden = matches!(
        fault.code,
        Code::WalletLocked
            | Code::AgentsFrozen
            | Code::AgentSuspended
            | Code::AgentNotCommissioned
            | Code::TransactionNotFound
            | Code::Unauthorized
    );
    if is_hidden { Fault::new(Code::AuthFailed) } else { fault }
}

/// Checks the form of the body. Runs before the proof, because it reveals nothing about any agent.
fn read(incoming: &Incoming) -> Result<(RequestId, ReportContent), Fault> {
    let id = incoming.required("transaction_id", Code::MissingTransactionId)?;
    let id = id.parse().map_err(|_no_uuid| Fault::new(Code::InvalidTransactionId))?;
    let kind = match incoming.required("event", Code::MissingEvent)? {
        "submitted" => ReportKind::Submitted,
        "settled" => ReportKind::Settled,
        "failed" => ReportKind::Failed,
        _other => return Err(Fault::new(Code::InvalidEvent)),
    };
    let tx_hash = match incoming.body.get("tx_hash") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(hash(text)?),
        Some(_other) => return Err(Fault::new(Code::InvalidTxHash)),
    };
    if kind == ReportKind::Settled && tx_hash.is_none() {
        return Err(Fault::new(Code::MissingTxHash));
    }
    let error =
        body::text(&incoming.body, "error")?.map(truncate_error).filter(|text| !text.is_empty());
    Ok((id, ReportContent { kind, tx_hash, error }))
}

fn hash(text: &str) -> Result<B256, Fault> {
    let invalid = || Fault::new(Code::InvalidTxHash);
    let digits = text.strip_prefix("0x").ok_or_else(invalid)?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes).map_err(|_not_hex| invalid())?;
    Ok(bytes.into())
}

/// Cuts an agent's error text to `REPORT_TEXT_BYTES_MAX`, at a character boundary.
fn truncate_error(text: &str) -> String {
    let mut end = text.len().min(REPORT_TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_error_text_is_cut_at_a_character_boundary() {
        let fits = "x".repeat(REPORT_TEXT_BYTES_MAX);
        let one_less = "x".repeat(REPORT_TEXT_BYTES_MAX - 1);
        for (text, kept) in [
            ("", ""),
            ("reverted", "reverted"),
            (&fits, &fits),
            (&format!("{fits}y"), &fits),
            (&format!("{one_less}é"), &one_less),
        ] {
            assert_eq!(truncate_error(text), kept);
        }
    }
}
