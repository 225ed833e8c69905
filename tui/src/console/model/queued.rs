//! A request in the queue, and its end.

use bursar_control::answers::{ActivityRow, RequestAnswer};
use bursar_core::text::Zone;

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestEnd {
    pub(crate) outcome: String,
    /// From the journal entry that ended the request; `None` until that entry arrives.
    pub(crate) origin: Option<EndOrigin>,
    /// When this console learned of the end, on its own clock.
    pub(super) at_ms: u64,
}

/// The origin and time of a request's end, from its journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndOrigin {
    detail: Option<String>,
    at: String,
}

impl EndOrigin {
    pub(super) fn of(entry: &ActivityRow) -> Self {
        Self { detail: entry.detail.clone(), at: entry.at.clone() }
    }

    pub(crate) fn text(&self, zone: &Zone) -> String {
        let at = zone.time_of_day(&self.at);
        self.detail.as_ref().map_or(at.clone(), |detail| format!("{detail}, {at}"))
    }
}

impl RequestEnd {
    pub(super) fn at(outcome: &str, at_ms: u64) -> Self {
        Self { outcome: outcome.to_owned(), origin: None, at_ms }
    }
}

/// A request in the queue, with its deadline on this console's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueuedRequest {
    pub(crate) request: RequestAnswer,
    pub(crate) deadline_ms: u64,
    /// When this console received the request, on its own clock.
    pub(super) received_ms: u64,
    pub(crate) end: Option<RequestEnd>,
    /// Whether the end was inferred, because the request is missing from the engine's list.
    pub(crate) is_end_inferred: bool,
    /// Whether the request was in the list when this console last looked for new ones.
    pub(crate) was_seen: bool,
    /// Whether the operator was notified of the new request.
    pub(crate) was_announced: bool,
    /// Whether the operator was notified that its last minute has begun.
    pub(crate) was_last_minute_announced: bool,
}

impl QueuedRequest {
    pub(crate) fn left_ms(&self, now_ms: u64) -> u64 {
        self.deadline_ms.saturating_sub(now_ms)
    }

    /// Returns the age of the quote of a trade or loan.
    pub(super) fn quote_age_ms(&self, now_ms: u64) -> Option<u64> {
        let since = now_ms.saturating_sub(self.received_ms);
        self.request.quote_age_ms.map(|age| age.saturating_add(since))
    }

    /// Returns why the request can no longer be decided; `None` while it is pending.
    pub(crate) fn closed_reason(&self, now_ms: u64) -> Option<&str> {
        match &self.end {
            Some(end) => Some(&end.outcome),
            None if self.left_ms(now_ms) == 0 => Some("expired"),
            None => None,
        }
    }

    /// Returns when the request was closed, on this console's clock; `None` while it is pending.
    pub(super) fn closed_ms(&self, now_ms: u64) -> Option<u64> {
        match &self.end {
            Some(end) => Some(end.at_ms),
            None => (self.left_ms(now_ms) == 0).then_some(self.deadline_ms),
        }
    }
}
