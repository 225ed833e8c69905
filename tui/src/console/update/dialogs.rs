//! Opens the cards of waiting requests by themselves, in the window of a sealed program.
//!
//! The oldest request comes first. A card opens only over the panes: never over a question, a text or another card, and
//! never where the operator types. A card that was closed once does not open by itself again.

use crate::console::model::overlay::{CardView, Overlay};
use crate::console::model::{Connection, Model, Purpose};

/// While a command of the operator runs, a card opens only after this time without a key: the command may ask for a
/// password, and the operator may begin to type it before the question is on the screen.
const QUIET_MS: u64 = 10_000;

/// Returns the card that opens by itself now.
pub(super) fn next(model: &Model) -> Option<CardView> {
    let may_open = model.setup.is_sealed()
        && model.connection == Connection::Up
        && !model.is_too_small()
        && model.marked_run.is_none()
        && !may_ask_soon(model);
    let oldest = model.cards_to_open().min_by_key(|row| (&row.request.created, &row.request.id));
    oldest.filter(|_row| may_open).and_then(|row| CardView::of(row, model.now_ms))
}

/// Notes that the open card was shown, so that it does not open by itself again.
pub(super) fn note_shown(model: &mut Model) {
    if let Some(Overlay::Card(view)) = &model.overlay {
        model.shown_cards.add(view);
    }
    model.shown_cards.keep_only(&model.server.queue);
}

/// Leaves the open card and all others that wait in the queue.
pub(super) fn leave_all(model: &mut Model) {
    model.overlay = None;
    model.leave_cards();
    let note = match model.pending_count() {
        1 => "1 request is left in the queue, pane 1.".to_owned(),
        all => format!("{all} requests are left in the queue, pane 1."),
    };
    model.note(note);
}

/// Returns whether a command of the operator may ask a question at any moment.
fn may_ask_soon(model: &Model) -> bool {
    let runs = model.purposes.values().any(|known| matches!(known, Purpose::Line { .. }));
    runs && model.now_ms < model.last_key_ms.saturating_add(QUIET_MS)
}
