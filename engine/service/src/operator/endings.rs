//! How requests ended: for an operator who comes too late, and for `approve --wait`.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::ids::RequestId;
use bursar_core::status::{DecidedStatus, RequestStatus};
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_domain::plan::ExecutionEnd;
use bursar_domain::requests::Approver;
use bursar_domain::{Request, Status};

use super::dialogue::Dialogue;
use super::support::describe::request_status;
use crate::context::EngineContext;
use crate::journal::read_fault;

/// The interval of progress lines. A program that hears nothing for two minutes stops waiting.
const PROGRESS_MS: u64 = 30_000;

/// Waits until the payment is signed, or the plan is final, and returns how the request ended.
///
/// # Errors
/// The code of the refusal, of the device or of the failed transaction; `WAIT_RAN_OUT` after `wait_s` seconds, and
/// `CANCELLED`. The request continues in both cases.
pub(super) async fn wait(
    engine: &Arc<EngineContext>,
    id: RequestId,
    wait_s: u32,
    dialogue: &mut dyn Dialogue,
) -> Result<DecidedStatus, Fault> {
    let mut views = engine.core.watch();
    let clock = &engine.ports.clock;
    let until = clock.mono_ms().saturating_add(u64::from(wait_s).saturating_mul(1_000));
    loop {
        views.borrow_and_update();
        if let Some(status) = ended(engine, id)? {
            return Ok(status);
        }
        let now = clock.mono_ms();
        if now >= until {
            return Err(Fault::because(Code::WaitRanOut, continues(id)));
        }
        let next = until.min(now.saturating_add(PROGRESS_MS));
        // cancel-safe: all branches only wait.
        tokio::select! {
            biased;
            () = engine.stopping.cancelled() => return Err(Fault::new(Code::EngineDown)),
            () = dialogue.cancelled() => return Err(Fault::because(Code::Cancelled, continues(id))),
            changed = views.changed() => changed.map_err(|_ended| Fault::new(Code::EngineDown))?,
            () = clock.sleep_until(next) => {
                dialogue.progress(&format!("{} has not ended yet.", id.short())).await;
            },
        }
    }
}

fn continues(id: RequestId) -> String {
    let id = id.short();
    format!(
        "{id} is approved and has not ended yet: see `bursar requests`, later `bursar receipt {id}`."
    )
}

/// Returns how the request ended; `None` if it has not ended.
fn ended(engine: &EngineContext, id: RequestId) -> Result<Option<DecidedStatus>, Fault> {
    let request = engine.core.reader().request(id).map_err(|error| read_fault(&error))?;
    let request = request.ok_or(Fault::new(Code::RequestNotFound))?;
    match &request.status {
        Status::Held { .. } | Status::AwaitingDevice(_) | Status::Executing(_) => Ok(None),
        Status::Authorized { signature: None, .. } => Ok(None),
        Status::Authorized { signature: Some(_), .. } => Ok(Some(DecidedStatus::Signed)),
        Status::Ended(execution) => match &execution.end {
            Some(ExecutionEnd::Executed { .. }) => Ok(Some(DecidedStatus::Executed)),
            Some(ExecutionEnd::Rejected(refusal) | ExecutionEnd::Failed { refusal, .. }) => {
                Err(Fault::because(refusal.code, refusal.describe()))
            }
            None => Ok(None),
        },
        Status::Refused { refusal, .. } => Err(Fault::because(refusal.code, refusal.describe())),
        Status::NotSigned { end, .. } => Err(Fault::because(end.code(), end.sentence())),
        Status::Denied { .. } | Status::Expired { .. } => {
            Err(explain_end(engine, id, Fault::new(Code::AlreadyDecided)))
        }
    }
}

/// Replaces `REQUEST_NOT_FOUND` or `ALREADY_DECIDED` with an error that states how the request ended.
///
/// The first decision wins, and a later one receives this error.
pub(super) fn explain_end(engine: &EngineContext, id: RequestId, fault: Fault) -> Fault {
    if !matches!(fault.code, Code::RequestNotFound | Code::AlreadyDecided) {
        return fault;
    }
    match engine.core.reader().request(id).ok().flatten() {
        Some(Request { status: Status::Expired { .. }, .. }) => {
            Fault::new(Code::RequestExpired).with_request_status(RequestStatus::Expired)
        }
        Some(request) => match ending_text(&request.status) {
            Some(ending) => {
                let message = format!("{} was {ending}.", request.id.short());
                let settlement = engine.core.reader().settlement(request.seq).ok().flatten();
                Fault::because(Code::AlreadyDecided, message)
                    .with_request_status(request_status(&request, settlement.as_ref()))
            }
            None => fault,
        },
        None => fault,
    }
}

/// Describes how a request ended, with its decider and time; `None` if it is held or expired.
fn ending_text(status: &Status) -> Option<String> {
    Some(match status {
        Status::Authorized { by, at, .. } => allowed_text(*by, *at),
        Status::Executing(execution) | Status::Ended(execution) => {
            allowed_text(execution.by, execution.at)
        }
        Status::Denied { by, at, reason, .. } => {
            let reason = reason.as_deref().map(|reason| format!(": {}", text::visible(reason)));
            format!("denied by {by} at {}{}", text::utc(*at), reason.unwrap_or_default())
        }
        Status::Refused { refusal, at, .. } => {
            let why = text::visible(&refusal.describe());
            format!("refused at {}: {}", text::utc(*at), why.trim_end_matches('.'))
        }
        Status::AwaitingDevice(turn) => {
            format!("{}, and waits for its Ledger", allowed_text(turn.by, turn.at))
        }
        Status::NotSigned { end, at, .. } => {
            let why = end.sentence().trim_end_matches('.');
            format!("not signed at {}: {why}", text::utc(*at))
        }
        Status::Held { .. } | Status::Expired { .. } => return None,
    })
}

fn allowed_text(by: Approver, at: Utc) -> String {
    match by {
        Approver::Operator(client) => format!("approved by {client} at {}", text::utc(at)),
        Approver::Policy => format!("allowed by the policy at {}", text::utc(at)),
    }
}
