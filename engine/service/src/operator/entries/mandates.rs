//! Describes journal entries about mandates.

use bursar_core::ids::AgentId;
use bursar_core::status::EntryKind;
use bursar_domain::mandates::{IssuedMandate, MandateEnd, MandateEvent, Purpose};
use bursar_mandate::Draft;

/// Returns the kind of an entry, its agent and a detail.
pub(super) fn describe(event: &MandateEvent) -> (EntryKind, &AgentId, String) {
    match event {
        MandateEvent::Issued(issued) => {
            (EntryKind::MandateIssued, &issued.draft.terms.agent, issued_text(issued))
        }
        MandateEvent::Signed { agent, id, .. } => (EntryKind::MandateSigned, agent, id.to_string()),
        MandateEvent::Ended { agent, id, end } => {
            (EntryKind::MandateEnded, agent, format!("{id}: {}", end_text(*end)))
        }
    }
}

/// Describes an issued mandate by its id and limits.
fn issued_text(issued: &IssuedMandate) -> String {
    let Draft { id, terms, .. } = &issued.draft;
    match issued.purpose {
        Purpose::Grant => {
            format!("{id}: at most {} {} a day", terms.limits.daily, terms.limits.currency)
        }
        Purpose::Retirement => format!("{id}: limits of zero"),
    }
}

fn end_text(end: MandateEnd) -> &'static str {
    match end {
        MandateEnd::Declined => "refused on its Ledger",
        MandateEnd::TimedOut => "not signed in time",
        MandateEnd::Superseded => "its terms no longer hold",
    }
}
