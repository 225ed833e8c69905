//! Shows and clears the bottom line.

use super::Model;
use super::note::{FREEZE_WINDOW_MS, Note};

/// How long a successful result is shown.
const NOTE_MS: u64 = 10_000;
/// How long a failure is shown.
const FAILURE_MS: u64 = 20_000;

impl Model {
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.show_note(text.into(), false, NOTE_MS);
    }

    pub(crate) fn note_failure(&mut self, text: impl Into<String>) {
        self.show_note(text.into(), true, FAILURE_MS);
    }

    /// Shows a hint about the freeze key for as long as a second press still freezes.
    pub(crate) fn hint_freeze(&mut self, text: &str) {
        self.freeze_at_ms = Some(self.now_ms);
        self.show_note(text.to_owned(), false, FREEZE_WINDOW_MS);
    }

    fn show_note(&mut self, text: String, failed: bool, for_ms: u64) {
        let text = self.setup.commands_in(&text).into_owned();
        let expires_at_ms = self.now_ms.saturating_add(for_ms);
        self.last_note = Some(Note { text, failed, at_ms: self.now_ms, expires_at_ms });
    }

    /// Removes the note, unless it is a failure or the hint about the freeze key.
    pub(crate) fn clear_note(&mut self) {
        let hinted = self.freeze_at_ms;
        self.last_note.take_if(|note| !note.failed && hinted != Some(note.at_ms));
    }
}
