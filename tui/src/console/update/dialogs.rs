//! Opens the cards of waiting requests by themselves, in the window of a sealed program.
//!
//! The oldest request comes first. A card opens only over the panes: never over a question, a text or another card, and
//! never where the operator types. A card that was closed once does not open by itself again.

use crate::console::model::overlay::{CardView, Overlay};
use crate::console::model::{Connection, Model, Purpose};

/// While a command of the operator runs, or a line is unfinished, a card opens only after this time without a key: the
/// command may ask for a password, and the operator may begin to type it before the question is on the screen.
const QUIET_MS: u64 = 10_000;
/// A card opens only this long after the last key that was pressed on the panes.
const PAUSE_MS: u64 = 1_000;
/// A card that can no longer be decided gives way to the next one after this time without a key.
const ENDED_MS: u64 = 5_000;

/// Opens the card that opens by itself now, if there is one.
pub(super) fn open_next(model: &mut Model) {
    if !model.setup.is_sealed() || !has_room(model) || may_ask_soon(model) {
        return;
    }
    let may_open = model.connection == Connection::Up
        && !model.is_too_small()
        && model.marked_run.is_none()
        && model.now_ms >= model.last_pane_key_ms.saturating_add(PAUSE_MS);
    let oldest = model.cards_to_open().min_by_key(|row| (&row.request.created, &row.request.id));
    let card =
        oldest.filter(|_row| may_open).and_then(|row| CardView::by_itself(row, model.now_ms));
    if let Some(card) = card {
        model.overlay = Some(Overlay::Card(Box::new(card)));
    }
}

/// Returns whether a card may open over what is on the screen. After a time without a key, it also opens over an unfinished
/// line, the help, and a card that can no longer be decided.
fn has_room(model: &Model) -> bool {
    let idle_ms = model.now_ms.saturating_sub(model.last_key_ms);
    let is_typing = model.line.is_some() || model.filtering.is_some();
    match &model.overlay {
        None => !is_typing || idle_ms >= QUIET_MS,
        Some(Overlay::Help { .. }) => idle_ms >= QUIET_MS,
        Some(Overlay::Card(view)) => {
            let row = model.server.find_queued(&view.id);
            let is_over = row.is_none_or(|row| row.closed_reason(model.now_ms).is_some());
            is_over && idle_ms >= ENDED_MS
        }
        Some(_question) => false,
    }
}

/// Notes that the open card was shown, so that it does not open by itself again.
pub(super) fn note_shown(model: &mut Model) {
    if !model.setup.is_sealed() {
        return;
    }
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
