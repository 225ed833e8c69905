//! Effects that keys, overlays and command lines share.

use zeroize::Zeroizing;

use crate::console::keymap::KeyAction;
use crate::console::model::card::KEY_GUARD_MS;
use crate::console::model::overlay::Overlay;
use crate::console::model::server::Topic;
use crate::console::model::{Intent, Model};

/// Returns the scroll position after `action`; `None` if the action does not scroll.
///
/// `page` is the number of rows of a page. After a resize, the last position may be less than the current one.
pub(super) fn scrolled(here: usize, last: usize, page: usize, action: KeyAction) -> Option<usize> {
    let here = here.min(last);
    let position = match action {
        KeyAction::Up => here.saturating_sub(1),
        KeyAction::Down => here.saturating_add(1),
        KeyAction::PageUp => here.saturating_sub(page.max(1)),
        KeyAction::PageDown => here.saturating_add(page.max(1)),
        KeyAction::First => 0,
        KeyAction::Last => last,
        _no_move => return None,
    };
    Some(position.min(last))
}

/// Makes the overlay ignore keys that decide for a moment.
pub(super) fn guard_keys(model: &mut Model) {
    let now_ms = model.now_ms;
    match &mut model.overlay {
        Some(Overlay::Card(card)) => card.guard_keys(now_ms),
        Some(Overlay::Marked(view)) => view.guard_keys(now_ms),
        Some(Overlay::Ask(question)) => question.guard(now_ms),
        Some(Overlay::AskFile(question)) => {
            question.armed_at_ms = now_ms.saturating_add(KEY_GUARD_MS)
        }
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
