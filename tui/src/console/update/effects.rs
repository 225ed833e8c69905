//! Effects that keys, overlays and command lines share.

use zeroize::Zeroizing;

use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::Overlay;
use crate::console::model::server::Topic;
use crate::console::model::{Intent, Model};

/// Makes the overlay ignore keys that decide for a moment.
pub(super) fn guard_keys(model: &mut Model) {
    let now_ms = model.now_ms;
    match &mut model.overlay {
        Some(Overlay::Card(card)) => card.guard_keys(now_ms),
        Some(Overlay::Marked(view)) => view.guard_keys(now_ms),
        Some(Overlay::Ask(question)) => question.guard(now_ms),
        Some(Overlay::ConfirmLeave { armed_at_ms }) => {
            *armed_at_ms = now_ms.saturating_add(KEY_GUARD_MS)
        }
        _no_decision => {}
    }
}

/// Copies a text to the terminal's clipboard; `what` names it in the note.
pub(super) fn copy_text(model: &mut Model, text: Zeroizing<String>, what: &str) -> Vec<Intent> {
    model.note(format!("Sent to the terminal's clipboard: {what}"));
    vec![Intent::Copy(text)]
}

/// Leaves the console. If this process is the engine, asks first.
pub(super) fn leave(model: &mut Model) -> Vec<Intent> {
    if !model.setup.owner {
        return vec![Intent::Quit];
    }
    // Reloads the number of attached consoles, because the engine does not report its changes.
    model.mark_stale(&[Topic::Status]);
    model.overlay =
        Some(Overlay::ConfirmLeave { armed_at_ms: model.now_ms.saturating_add(KEY_GUARD_MS) });
    Vec::new()
}
