//! Changes that the passing of time causes.

use super::overlay::Overlay;
use super::server::Topic;
use super::{Connection, Model, NOTICE_PAUSE_MS, PASTE_GAP_MS, Pane, Purpose};

/// Interval of status queries. The status is polled, because the journal records neither the server's state nor every
/// lock.
const POLL_MS: u64 = 10_000;
/// Interval of balance queries. Balances are polled, because the engine does not report incoming money.
const BALANCES_MS: u64 = 300_000;
/// Interval of position queries. Positions also change without a journal entry. A query measures every venue again, so
/// queries are rarer.
const POSITIONS_MS: u64 = 600_000;
/// Interval in which countdowns change.
const TICK_MS: u64 = 1_000;
/// The topics that are polled, with their interval.
const POLL_INTERVALS: [(Topic, u64); 4] = [
    (Topic::Status, POLL_MS),
    (Topic::Requests, POLL_MS),
    (Topic::Balances, BALANCES_MS),
    (Topic::Positions, POSITIONS_MS),
];

impl Model {
    /// Returns when the screen next changes by itself or a query is due, on the model's clock.
    pub(crate) fn wake_ms(&self) -> Option<u64> {
        if self.connection != Connection::Up {
            return self.note_expires_ms();
        }
        // The answer to a query in flight wakes the console.
        let idle = |topic: &Topic| !self.in_flight(&Purpose::Query(*topic));
        let queries = self
            .stale_topics
            .iter()
            .filter(|topic| idle(topic))
            .map(|topic| self.query_due_ms(*topic));
        let polls = POLL_INTERVALS
            .into_iter()
            .filter(|(topic, _every)| idle(topic))
            .filter_map(|(topic, every)| Some(self.queried_ms.get(&topic)?.saturating_add(every)));
        // All countdowns change together, so that hundreds of them cost one frame a second.
        let tick = self.now_ms.next_multiple_of(TICK_MS);
        let tick = if tick > self.now_ms { tick } else { tick.saturating_add(TICK_MS) };
        let ticks = self.server.pending(self.now_ms).next().map(|_any| tick);
        let armed = match &self.overlay {
            Some(Overlay::Card(card)) => Some(card.armed_at_ms),
            Some(Overlay::Marked(view)) => Some(view.armed_at_ms),
            Some(Overlay::Ask(question)) => Some(question.armed_at_ms),
            Some(Overlay::AskFile(question)) => Some(question.armed_at_ms),
            Some(Overlay::ConfirmLeave { armed_at_ms }) => Some(*armed_at_ms),
            _other => None,
        };
        let armed = armed.filter(|at| *at > self.now_ms);
        let confirmed = self.unconfirmed_key.map(|(_action, at)| at.saturating_add(PASTE_GAP_MS));
        let watch = (self.has_feed && !self.in_flight(&Purpose::Watch))
            .then_some(self.watch_from_ms)
            .filter(|at| *at > self.now_ms);
        let icons = self.icons.again_ms.filter(|_at| idle(&Topic::Icons));
        // A notice may be due after the pause.
        let notices = self.sent_notices.values().map(|sent| sent.last_ms);
        let notices = notices.map(|at| at.saturating_add(NOTICE_PAUSE_MS));
        let notices = notices.filter(|at| *at > self.now_ms);
        let others = armed
            .into_iter()
            .chain(confirmed)
            .chain(watch)
            .chain(notices)
            .chain(icons)
            .chain(self.note_expires_ms());
        queries.chain(polls).chain(ticks).chain(others).min()
    }

    fn note_expires_ms(&self) -> Option<u64> {
        self.last_note.as_ref().map(|note| note.expires_at_ms)
    }

    /// Advances the clock and marks outdated topics as stale.
    pub(crate) fn advance_to(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms);
        for (topic, every) in POLL_INTERVALS {
            let asked = self.queried_ms.get(&topic);
            if asked.is_some_and(|asked| self.now_ms.saturating_sub(*asked) >= every) {
                self.stale_topics.insert(topic);
            }
        }
        if self.icons.again_ms.take_if(|at| *at <= self.now_ms).is_some() {
            self.mark_stale(&[Topic::Icons]);
        }
        if self.note_expires_ms().is_some_and(|at| at <= self.now_ms) {
            self.last_note = None;
        }
        self.reorder_requests();
    }

    /// Keeps pending requests above closed ones, and selects a pending request if there is one. So no key can open a
    /// closed request while another request is pending.
    pub(crate) fn reorder_requests(&mut self) {
        let kept = match &self.overlay {
            Some(Overlay::Card(view)) => Some(view.id.clone()),
            _other => None,
        };
        let place = self.selected_row(Pane::Approvals);
        self.server.reorder(self.now_ms, kept.as_deref());
        let known = self.selected.get(&Pane::Approvals).and_then(|id| self.server.find_queued(id));
        let waits = known.is_some_and(|known| known.closed_reason(self.now_ms).is_none());
        let others = self.server.pending(self.now_ms).next().is_some();
        // Select the first row as soon as there is one, so that later requests do not move the selection.
        if (known.is_none() && !self.server.queue.is_empty()) || (!waits && others) {
            // After a decision the cursor keeps its place: the next request is there.
            self.select(Pane::Approvals, place);
        }
    }
}
