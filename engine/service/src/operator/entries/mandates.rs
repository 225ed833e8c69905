//! Describes journal entries about mandates.

use bursar_core::ids::AgentId;
use bursar_core::status::EntryKind;
use bursar_domain::mandates::{IssuedMandate, MandateEnd, MandateEvent, Purpose};
use bursar_domain::registrations::{Upload, UploadEnd};
use bursar_mandate::Draft;

use crate::operator::support::mandate_status::registry_label;

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
        MandateEvent::UploadBegun(upload) => {
            (EntryKind::MandateUploadBegun, &upload.agent, upload_text(upload, "going there"))
        }
        MandateEvent::UploadEnded { upload, end } => {
            let end = match end {
                UploadEnd::Published(_entry) => "published".to_owned(),
                UploadEnd::Refused(refusal) => format!("not published: {refusal}"),
                UploadEnd::Absent => "not there".to_owned(),
            };
            (EntryKind::MandateUploadEnded, &upload.agent, upload_text(upload, &end))
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

fn upload_text(upload: &Upload, end: &str) -> String {
    format!("{} at {}: {end}", upload.id, registry_label(&upload.base))
}

fn end_text(end: MandateEnd) -> &'static str {
    match end {
        MandateEnd::Declined => "refused on its Ledger",
        MandateEnd::TimedOut => "not signed in time",
        MandateEnd::Superseded => "its terms no longer hold",
    }
}
