//! The cards that were shown in a window whose cards open by themselves.

use std::collections::BTreeSet;

use super::overlay::CardView;
use super::queued::QueuedRequest;

/// A card: the id of its request, and whether the request waits on its device.
pub(super) type Key = (String, bool);

/// The cards that were shown.
///
/// A request that waits on a device has a second card, with the rows of the device's screen.
#[derive(Debug, Default)]
pub(crate) struct ShownCards(BTreeSet<Key>);

impl ShownCards {
    pub(super) fn contains(&self, row: &QueuedRequest) -> bool {
        self.0.contains(&key(row))
    }

    pub(crate) fn add(&mut self, view: &CardView) {
        self.0.insert((view.id.clone(), view.card.device.is_some()));
    }

    /// Adds the cards of requests.
    pub(super) fn add_all(&mut self, rows: Vec<Key>) {
        self.0.extend(rows);
    }

    /// Forgets requests that are no longer in the queue, and prompts of a device that have ended: the next one opens a
    /// card again.
    pub(crate) fn keep_only(&mut self, queue: &[QueuedRequest]) {
        let is_prompting = |row: &QueuedRequest| {
            let device = row.request.card.as_ref().and_then(|card| card.device.as_ref());
            device.is_none_or(|device| device.is_prompting)
        };
        self.0.retain(|(id, on_device)| {
            let row = queue.iter().find(|row| row.request.id == *id);
            row.is_some_and(|row| !on_device || is_prompting(row))
        });
    }
}

/// Returns the card of a request in the queue.
pub(super) fn key(row: &QueuedRequest) -> Key {
    let card = row.request.card.as_ref();
    (row.request.id.clone(), card.is_some_and(|card| card.device.is_some()))
}
