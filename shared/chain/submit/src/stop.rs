//! Stops further offers of a submission. Its signed transactions may still be mined.

use crate::event::Event;
use crate::outbox::{Kind, Submission, SubmissionId};

/// Which unsigned attempt [`no_further_offers`] declines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declines {
    /// Only an offer of the call. An empty transaction remains possible: it moves nothing and frees the nonce.
    Call,
    /// An offer of the call, or an empty transaction.
    Any,
}

/// Returns the events that stop further offers of a signed submission's call.
///
/// They decline the unsigned attempt, as far as `declines` permits, and lower the ceiling to the highest signed offer.
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
