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

    /// Forgets the requests that are no longer in the queue.
    pub(crate) fn keep_only(&mut self, queue: &[QueuedRequest]) {
        self.0.retain(|(id, _on_device)| queue.iter().any(|row| row.request.id == *id));
    }
}

/// Returns the card of a request in the queue.
pub(super) fn key(row: &QueuedRequest) -> Key {
    let card = row.request.card.as_ref();
    (row.request.id.clone(), card.is_some_and(|card| card.device.is_some()))
}
