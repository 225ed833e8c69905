//! Stops the offers of a submission whose transaction may be mined in any case.

use crate::event::Event;
use crate::outbox::{Kind, Submission, SubmissionId};

/// An unsigned attempt that a stop declines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declines {
    /// Only an offer of the call. An empty transaction remains possible: it moves nothing and frees the nonce.
    Call,
    /// Also an empty transaction.
    Any,
}

/// Returns the events after which nothing more is signed for a signed submission's call: the unsigned attempt is
/// declined, and no later offer is higher than the signed ones.
pub fn no_further_offers(id: SubmissionId, one: &Submission, declines: Declines) -> Vec<Event> {
    let unsigned = one.unsigned_attempt().filter(|(_attempt, tried)| match declines {
        Declines::Call => matches!(tried.kind, Kind::Call),
        Declines::Any => true,
    });
    let declined = unsigned.map(|(attempt, _tried)| attempt);
    let mut events: Vec<Event> =
        declined.map(|attempt| Event::Declined { id, attempt }).into_iter().collect();
    let signed = one.attempts.iter().filter(|tried| tried.raw.is_some());
    let ceiling = signed.map(|tried| tried.fees.max_price()).max().unwrap_or(0);
    if ceiling < one.ceiling {
        events.push(Event::CeilingLowered { id, ceiling });
    }
    events
}
