//! The answers about trades and loans: the full result for a call, and a shorter one for a poll.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::json::{Object, Value};
use bursar_core::time::Moment;
use bursar_domain::plan::Execution;
use bursar_domain::{Refusal, Request, Status};

use super::reply::{Answer, Outcome};

/// The result objects of one lane.
pub(super) trait PlanResult {
    /// Returns the trade or loan of a request; `None` if the request belongs to another lane.
    fn of(record: &Request) -> Option<&Self>;

    /// Returns the measurement of the request as JSON.
    fn quote(&self) -> Value;

    /// Answers a refusal that is not recorded.
    fn answer_refused(refusal: &Refusal) -> Answer;

    /// Answers a request that waits for a person.
    fn answer_pending(&self, id: &str) -> Answer;

    /// Answers a refusal of a recorded request.
    fn answer_rejected(&self, id: &str, refusal: &Refusal, was_held: bool) -> Answer;

    /// Answers a request whose plan is running or has ended.
    fn answer_executed(&self, id: &str, execution: &Execution) -> Answer;
}

/// Answers a call with the full result.
pub(super) fn describe<R: PlanResult>(record: &Request, awaits_first_press: bool) -> Answer {
    let Some(asked) = R::of(record) else { return Answer::from(Fault::new(Code::InternalError)) };
    let id = record.id.to_string();
    match &record.status {
        Status::Held { .. } => asked.answer_pending(&id),
        Status::Executing(_) if awaits_first_press => asked.answer_pending(&id),
        Status::Refused { refusal, was_held, .. } => asked.answer_rejected(&id, refusal, *was_held),
        Status::Executing(execution) | Status::Ended(execution) => {
            asked.answer_executed(&id, execution)
        }
        Status::Denied { reason: Some(reason), .. } => {
            answer_over(asked, &id, Refusal::because(Code::RequestDenied, reason))
        }
        Status::Denied { reason: None, .. } => answer_over(asked, &id, Code::RequestDenied.into()),
        // Only payments are ever `Authorized`, `AwaitingDevice` or `NotSigned`.
        Status::Expired { .. }
        | Status::Authorized { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => answer_over(asked, &id, Code::RequestExpired.into()),
    }
}

/// Answers a poll: 202 while the operator or a person at a device decides, else 200.
pub(super) fn describe_poll<R: PlanResult>(
    record: &Request,
    awaits_first_press: bool,
    moment: &Moment,
) -> Answer {
    let Some(asked) = R::of(record) else {
        return Answer::from(Fault::new(Code::RequestNotFound));
    };
    let id = record.id.to_string();
    let short = |status: &str| {
        Object::new()
            .with("status", status)
            .with("request_id", id.as_str())
            .with("quote", asked.quote())
    };
    let pending = |left_ms: u64| {
        let left = left_ms.div_ceil(1_000);
        Answer::new(202, short("pending").with("expires_in_seconds", left))
            .with_outcome(Outcome::InProgress)
    };
    match &record.status {
        Status::Held { .. } if record.is_hold_over(moment) => {
            answer_over(asked, &id, Code::RequestExpired.into()).with_status(200)
        }
        Status::Held { deadline, .. } => pending(deadline.left_ms(moment)),
        Status::Executing(execution) if awaits_first_press => pending(execution.left_ms(moment)),
        Status::Executing(execution) if execution.end.is_none() => {
            Answer::new(200, short("executing")).with_outcome(Outcome::InProgress)
        }
        Status::Executing(_)
        | Status::Ended(_)
        | Status::Refused { .. }
        | Status::Denied { .. }
        | Status::Expired { .. }
        | Status::Authorized { .. }
        | Status::AwaitingDevice(_)
        | Status::NotSigned { .. } => describe::<R>(record, awaits_first_press).with_status(200),
    }
}

/// Answers a request that the operator denied or that expired. The answer has no `code` of a failed approval.
fn answer_over<R: PlanResult>(asked: &R, id: &str, refusal: Refusal) -> Answer {
    asked.answer_rejected(id, &refusal, false)
}
