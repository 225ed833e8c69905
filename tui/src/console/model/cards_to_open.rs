//! The cards that are still to open in a window whose cards open by themselves.

use super::Model;
use super::queued::QueuedRequest;
use super::shown_cards::key;

impl Model {
    /// Iterates over the requests whose cards are still to open by themselves.
    pub(crate) fn cards_to_open(&self) -> impl Iterator<Item = &QueuedRequest> {
        // Until the device shows a request, the operator can do nothing about it.
        let is_shown = |row: &&QueuedRequest| {
            let card = row.request.card.as_ref();
            card.is_some_and(|card| card.device.as_ref().is_none_or(|device| device.is_prompting))
        };
        let is_new = |row: &&QueuedRequest| !self.shown_cards.contains(row);
        self.server.pending(self.now_ms).filter(is_shown).filter(is_new)
    }

    /// Leaves all of these requests in the queue.
    pub(crate) fn leave_cards(&mut self) {
        let all = self.cards_to_open().map(key).collect();
        self.shown_cards.add_all(all);
    }
}
