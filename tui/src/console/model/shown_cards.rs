//! The cards that were shown in a window whose cards open by themselves, and those that are still to open.

use std::collections::BTreeSet;

use super::Model;
use super::overlay::CardView;
use super::queued::QueuedRequest;

/// The cards that were shown, by the id of the request and whether it waits on its device.
///
/// A request that waits on a device has a second card, with the rows of the device's screen.
#[derive(Debug, Default)]
pub(crate) struct ShownCards(BTreeSet<(String, bool)>);

impl ShownCards {
    fn contains(&self, row: &QueuedRequest) -> bool {
        self.0.contains(&key(row))
    }

    pub(crate) fn add(&mut self, view: &CardView) {
        self.0.insert((view.id.clone(), view.card.device.is_some()));
    }

    /// Forgets the requests that are no longer in the queue.
    pub(crate) fn keep_only(&mut self, queue: &[QueuedRequest]) {
        self.0.retain(|(id, _on_device)| queue.iter().any(|row| row.request.id == *id));
    }
}

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

    /// Leaves all of these requests in the queue, and returns their number.
    pub(crate) fn leave_cards(&mut self) -> usize {
        let all: Vec<_> = self.cards_to_open().map(key).collect();
        let count = all.len();
        self.shown_cards.0.extend(all);
        count
    }
}

fn key(row: &QueuedRequest) -> (String, bool) {
    let card = row.request.card.as_ref();
    (row.request.id.clone(), card.is_some_and(|card| card.device.is_some()))
}
