//! Notifies the operator of new requests, and of requests whose last minute has begun.
//!
//! The first notice of a kind comes at once. What follows within half a minute is one more notice; after that, the
//! console is silent until a key shows that somebody looks, but for at most five minutes after the last request.

use bursar_core::settings::Notices;

use crate::console::model::queued::QueuedRequest;
use crate::console::model::rows::short;
use crate::console::model::{Intent, Model, NOTICE_PAUSE_MS, NoticeKind, SentNotices};

/// Time left in milliseconds at which a request is announced a second time.
const LAST_MINUTE_MS: u64 = 60_000;
/// After this long without a notice, the console rings again, even if nobody has looked.
const SILENCE_MS_MAX: u64 = 300_000;
/// Maximum number of notices of a kind until somebody looks.
const NOTICES_MAX: usize = 2;

/// Returns the notice that is due now.
pub(super) fn announce(model: &mut Model) -> Option<Intent> {
    clear_old_note(model);
    let kinds = [NoticeKind::New, NoticeKind::LastMinute];
    let texts: Vec<String> = kinds.into_iter().filter_map(|kind| take(model, kind)).collect();
    if texts.is_empty() {
        return None;
    }
    // The text has no amount and no name, because a notice may appear on a locked screen.
    let text = format!("Bursar: {}", texts.join(", "));
    match model.server.notices {
        Notices::All => Some(Intent::Notify { bell: true, notice: Some(text) }),
        Notices::Bell => Some(Intent::Notify { bell: true, notice: None }),
        Notices::None => None,
    }
}

/// Notes that somebody looks at the console: pending requests need no notice, and later ones get one at once.
pub(super) fn note_look(model: &mut Model) {
    model.sent_notices.clear();
    for kind in [NoticeKind::New, NoticeKind::LastMinute] {
        mark_announced(model, kind);
    }
}

/// Clears the note when a request arrives: the note about an earlier decision must not seem to be about the new one.
fn clear_old_note(model: &mut Model) {
    let now_ms = model.now_ms;
    let mut has_arrived = false;
    for row in model.server.queue.iter_mut().filter(|row| !row.was_seen) {
        row.was_seen = true;
        has_arrived |= row.closed_reason(now_ms).is_none();
    }
    if has_arrived {
        model.clear_note();
    }
}

/// Returns the text of the notice of a kind that is due now, and marks its requests as announced.
fn take(model: &mut Model, kind: NoticeKind) -> Option<String> {
    let now_ms = model.now_ms;
    let due: Vec<&QueuedRequest> =
        model.server.queue.iter().filter(|row| is_due(row, kind, now_ms)).collect();
    let (count, first) = (due.len(), due.first().map(|row| short(&row.request.id))?);
    let sent = model.sent_notices.entry(kind).or_default();
    if now_ms >= sent.last_ms.saturating_add(SILENCE_MS_MAX) {
        *sent = SentNotices::default();
    }
    let (before, last_ms) = (sent.count, sent.last_ms);
    if before > 0 && before < NOTICES_MAX && now_ms < last_ms.saturating_add(NOTICE_PAUSE_MS) {
        return None;
    }
    *sent = SentNotices { count: before.saturating_add(1), last_ms: now_ms };
    mark_announced(model, kind);
    let what = match (kind, count) {
        (NoticeKind::New, 1) => format!("request {first} needs your approval"),
        (NoticeKind::New, more) => format!("{more} requests need your approval"),
        (NoticeKind::LastMinute, 1) => format!("request {first} expires within a minute"),
        (NoticeKind::LastMinute, more) => format!("{more} requests expire within a minute"),
    };
    (before < NOTICES_MAX).then_some(what)
}

fn is_due(row: &QueuedRequest, kind: NoticeKind, now_ms: u64) -> bool {
    let is_pending = row.closed_reason(now_ms).is_none();
    let is_last_minute = row.left_ms(now_ms) <= LAST_MINUTE_MS;
    is_pending
        && match kind {
            NoticeKind::New => !row.was_announced,
            NoticeKind::LastMinute => {
                row.was_announced && is_last_minute && !row.was_last_minute_announced
            }
        }
}

fn mark_announced(model: &mut Model, kind: NoticeKind) {
    let now_ms = model.now_ms;
    for row in &mut model.server.queue {
        let is_last_minute = row.left_ms(now_ms) <= LAST_MINUTE_MS;
        match kind {
            NoticeKind::New if !row.was_announced => {
                row.was_announced = true;
                // A new request is not announced twice.
                row.was_last_minute_announced |= is_last_minute;
            }
            NoticeKind::New => {}
            NoticeKind::LastMinute => row.was_last_minute_announced |= is_last_minute,
        }
    }
}
