//! Stops the offers of a submission whose transaction may be mined in any case.

use crate::event::Event;
use crate::outbox::{Submission, SubmissionId};

/// Returns the events after which nothing more is signed for a signed submission's call: the unsigned attempt is
/// declined, and no later offer is higher than the signed ones.
pub fn no_further_offers(id: SubmissionId, one: &Submission) -> Vec<Event> {
    let declined = one.unsigned_attempt().map(|(attempt, _tried)| attempt);
    let mut events: Vec<Event> =
        declined.map(|attempt| Event::Declined { id, attempt }).into_iter().collect();
    let signed = one.attempts.iter().filter(|tried| tried.raw.is_some());
    let ceiling = signed.map(|tried| tried.fees.max_price()).max().unwrap_or(0);
    if ceiling < one.ceiling {
        events.push(Event::CeilingLowered { id, ceiling });
    }
    events
}
