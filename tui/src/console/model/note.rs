//! The bottom line: what the last action came to, for as long as that is news.

use super::Model;

/// One line about the last action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) failed: bool,
    pub(crate) at_ms: u64,
    /// When it is no news any more.
    pub(super) goes_at_ms: u64,
}

/// What the last action came to is news for so long, and what failed for longer.
const NEWS_MS: u64 = 10_000;
const FAILURE_MS: u64 = 20_000;
/// Both keys of the pair that freezes come within this.
pub(crate) const FREEZE_MS: u64 = 2_000;

impl Model {
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.say(text.into(), false, NEWS_MS);
    }

    pub(crate) fn complain(&mut self, text: impl Into<String>) {
        self.say(text.into(), true, FAILURE_MS);
    }

    /// What the first key of the pair that freezes waits for: said as long as it is true.
    pub(crate) fn hint_freeze(&mut self, text: &str) {
        self.freeze_at_ms = Some(self.now_ms);
        self.say(text.to_owned(), false, FREEZE_MS);
    }

    fn say(&mut self, text: String, failed: bool, for_ms: u64) {
        let goes_at_ms = self.now_ms.saturating_add(for_ms);
        self.last = Some(Note { text, failed, at_ms: self.now_ms, goes_at_ms });
    }

    /// Something else is news now. What failed stays to be read, and so does what the next key would do.
    pub(crate) fn outdate_note(&mut self) {
        let hinted = self.freeze_at_ms;
        self.last.take_if(|note| !note.failed && hinted != Some(note.at_ms));
    }
}
