//! The commands `activity` and `watch`: show journal entries. They read a bounded number of entries at a time, so the
//! cost does not grow with the journal. They send no message to the core.

use std::sync::Arc;

use bursar_control::activity_rows::{ONE_SHOT_ENTRIES_MAX, shown_positions};
use bursar_control::answers::{ActivityAnswer, ActivityRow, Answer};
use bursar_control::grammar::{ActivityOrder, WatchOrder};
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::limits::{
    FRAME_BYTES_MAX, HISTORY_ROWS_MAX, WATCH_FRAME_BYTES_MAX, WATCH_FRAME_ENTRIES_MAX,
};

use super::dialogue::Dialogue;
use super::entries::EntryDescriber;
use super::support::Done;
use super::support::frame_budget::truncate_to_fit;
use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::core::View;
use crate::journal::{JournalError, visit_range};

/// Rows shown without `--limit`.
const DEFAULT_LIMIT: usize = 20;
/// Maximum number of entries that are read for the rows of one answer.
const READ_ENTRIES_MAX: u64 = 10_000;
/// Number of entries that are read at once.
const PART_ENTRIES: u64 = 500;

pub(super) async fn list(
    engine: &Arc<EngineContext>,
    order: &ActivityOrder,
) -> Result<Done, Fault> {
    let limit = order.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=HISTORY_ROWS_MAX).contains(&limit) {
        let message =
            format!("--limit must be 1 to {HISTORY_ROWS_MAX}; use --before for older entries.");
        return Err(Fault::because(Code::BadInput, message));
    }
    let view = engine.core.view();
    let end = view.head.seq.saturating_add(1);
    let last = order.before.unwrap_or(end).min(end).saturating_sub(1);
    let (mut entries, mut more) = if order.raw {
        let after = last.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
        (newest_first(engine, &view, after, last).await?, after > 0)
    } else {
        shown_rows(engine, &view, last, limit).await?
    };
    let left_out =
        truncate_to_fit(&mut entries, FRAME_BYTES_MAX.saturating_sub(FRAME_BYTES_MAX / 8));
    more |= left_out > 0;
    Ok(Answer::Activity(ActivityAnswer { entries, more }).into())
}

/// Sends the entries after `since`, then new ones when they are committed. Ends if the program cancels or the engine
/// stops.
///
/// # Errors
/// Every call ends with an error: `CANCELLED`, `ENGINE_DOWN`, `BAD_INPUT` if `since` is past the journal's head, or
/// `JOURNAL_DAMAGED` if an entry cannot be read.
pub(super) async fn watch(
    engine: &Arc<EngineContext>,
    order: &WatchOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let mut views = engine.core.watch();
    let mut devices = engine.device_status.clone();
    let head = views.borrow().head.seq;
    let mut shown = order.since.unwrap_or(head);
    if shown > head {
        let message = format!(
            "This journal has {head} entries, but entry {shown} was already shown: the journal was \
             shortened or replaced."
        );
        return Err(Fault::because(Code::BadInput, message).with_hint("audit verify"));
    }
    loop {
        let view = Arc::clone(&views.borrow_and_update());
        let last = view.head.seq.min(shown.saturating_add(WATCH_FRAME_ENTRIES_MAX));
        if shown < last {
            let mut entries = rows(engine, view, shown, last).await?;
            truncate_to_fit(&mut entries, WATCH_FRAME_BYTES_MAX);
            shown = entries.last().map(|row| row.seq).ok_or(Fault::new(Code::InternalError))?;
            // cancel-safe: when the engine stops, no more entries are sent.
            tokio::select! {
                biased;
                () = engine.stopping.cancelled() => return Err(stopped_fault()),
                sent = dialogue.entries(entries) => sent?,
            }
        } else {
            // cancel-safe: all branches only wait.
            tokio::select! {
                biased;
                () = engine.stopping.cancelled() => return Err(stopped_fault()),
                () = dialogue.cancelled() => return Err(Fault::new(Code::Cancelled)),
                changed = views.changed() => changed.map_err(|_core_ended| stopped_fault())?,
                // An empty list makes the program query again which requests wait for devices.
                Ok(()) = devices.changed() => dialogue.entries(Vec::new()).await?,
            }
        }
    }
}

fn stopped_fault() -> Fault {
    Fault::because(Code::EngineDown, "The engine has stopped.")
}

/// Returns at most `limit` rows for people up to the entry `last`, newest first, and whether there are older ones.
async fn shown_rows(
    engine: &Arc<EngineContext>,
    view: &Arc<View>,
    last: u64,
    limit: usize,
) -> Result<(Vec<ActivityRow>, bool), Fault> {
    let (mut entries, mut after) = (Vec::new(), last);
    // The rows after the wanted ones show whether the last of these belongs to a one-shot.
    let enough = limit.saturating_add(ONE_SHOT_ENTRIES_MAX).saturating_add(1);
    loop {
        let until = after;
        after = after.saturating_sub(PART_ENTRIES);
        entries.append(&mut newest_first(engine, view, after, until).await?);
        let mut shown = shown_positions(&entries);
        let is_end = after == 0 || last.saturating_sub(after) >= READ_ENTRIES_MAX;
        if shown.len() >= enough || is_end {
            let more = after > 0 || shown.len() > limit;
            shown.truncate(limit);
            let mut shown = shown.into_iter().peekable();
            let rows = entries.into_iter().enumerate();
            let rows = rows.filter(|(position, _row)| shown.next_if_eq(position).is_some());
            return Ok((rows.map(|(_position, row)| row).collect(), more));
        }
    }
}

/// Reads the entries from `after + 1` to `last`, newest first.
async fn newest_first(
    engine: &Arc<EngineContext>,
    view: &Arc<View>,
    after: u64,
    last: u64,
) -> Result<Vec<ActivityRow>, Fault> {
    let mut rows = rows(engine, Arc::clone(view), after, last).await?;
    rows.reverse();
    Ok(rows)
}

/// Reads the entries from `after + 1` to `last`, oldest first.
async fn rows(
    engine: &Arc<EngineContext>,
    view: Arc<View>,
    after: u64,
    last: u64,
) -> Result<Vec<ActivityRow>, Fault> {
    let reader = engine.core.reader();
    let read = blocking(move || {
        let describer = EntryDescriber { state: &view.state, reader: &*reader };
        let mut rows = Vec::new();
        visit_range(&*reader, after, last, |entry| {
            rows.push(describer.row(&entry)?);
            Ok(())
        })?;
        Ok::<_, JournalError>(rows)
    });
    read.await?.map_err(|error| Fault::because(Code::JournalDamaged, format!("{error}.")))
}
