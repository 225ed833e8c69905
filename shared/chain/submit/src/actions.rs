//! Actions and events that several inputs produce.

use bursar_core::time::Utc;

use crate::event::Event;
use crate::input::Action;
use crate::outbox::{Submission, SubmissionId, Trouble};

/// Returns the event that changes the trouble, or `None` if it is unchanged.
pub(crate) fn trouble_change(
    id: SubmissionId,
    one: &Submission,
    trouble: Option<Trouble>,
) -> Option<Event> {
    (one.trouble != trouble).then_some(Event::Troubled { id, trouble })
}

/// Requests the signature of the unsigned attempt.
pub(crate) fn sign(id: SubmissionId, one: &Submission) -> Option<Action> {
    let (attempt, tried) = one.unsigned_attempt()?;
    Some(Action::Sign { id, attempt, digest: tried.digest })
}

/// Broadcasts the newest signed transaction again, unless it is a call that was cancelled or has expired.
pub(crate) fn resend(id: SubmissionId, one: &Submission, at: Utc) -> Option<Action> {
    let (_attempt, _tried, raw) = one.newest()?;
    one.may_send(raw.hash, at).then(|| Action::Send { id, raw: raw.clone() })
}

/// Withdraws a signed call that has expired. An empty transaction will then use its nonce.
pub(crate) fn withdraw(id: SubmissionId, one: &Submission, at: Utc) -> Option<Event> {
    let late = one.is_signed() && !one.cancel && !one.may_offer_call(at);
    late.then_some(Event::CancelWanted { id })
}
