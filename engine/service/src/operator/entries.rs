//! Entries of the journal in words: recorded ones, and those that a dry run would record.

mod describe;
mod mandates;
pub(super) mod outboxes;

use bursar_control::answers::ActivityRow;
use bursar_domain::{Entry, Event};

pub(super) use describe::EntryDescriber;

use crate::context::EngineContext;

/// Describes events that are not recorded, each in a line.
pub(super) fn preview(engine: &EngineContext, events: Vec<Event>) -> Vec<String> {
    let (view, reader) = (engine.core.view(), engine.core.reader());
    let now = engine.core.now().utc;
    let describer = EntryDescriber { state: &view.state, reader: &*reader };
    let lines = events.into_iter().map(|event| {
        let entry = Entry { seq: view.head.seq.saturating_add(1), at: now, event };
        describer.row(&entry).map_or_else(|_unreadable| Vec::new(), |row| preview_lines(&row))
    });
    lines.flatten().collect()
}

/// Returns a line for each change of a row, or one line for the row.
fn preview_lines(row: &ActivityRow) -> Vec<String> {
    let about = [row.agent.as_ref(), row.amount_text(), row.host.as_ref(), row.detail.as_ref()];
    let about: Vec<&str> = about.into_iter().flatten().map(String::as_str).collect();
    let kind = row.kind.text().replace(['.', '_'], " ");
    let head = format!("{kind}: {}", about.join(", "));
    let head = head.trim_end_matches(": ").to_owned();
    if row.changes.is_empty() {
        return vec![head];
    }
    // The detail repeats the changes, after the name of what changes if there is one.
    let named = row.detail.as_deref().and_then(|detail| detail.split_once(": "));
    let named = named.map(|(name, _changes)| name).or(row.agent.as_deref()).unwrap_or(&kind);
    row.changes.iter().map(|change| format!("{named}: {}", change.text())).collect()
}
