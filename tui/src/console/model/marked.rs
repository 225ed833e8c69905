//! The open card about marked requests.

use bursar_core::money::Usd;

use super::card::{AMOUNT_CHARS_MAX, Hint, KEY_GUARD_MS};
use super::seen_rows::SeenRows;
use super::selection::Selection;

/// The card that one decision about marked requests needs.
#[derive(Debug)]
pub(crate) struct MarkedView {
    /// Whether the decision approves the requests; otherwise it denies them.
    pub(crate) approve: bool,
    pub(crate) selection: Selection,
    /// The decision counts from this time on. A change delays only an approval.
    pub(crate) armed_at_ms: u64,
    pub(crate) typed_value: String,
    /// Why the last decision failed.
    pub(crate) fault: Option<String>,
    /// Why the last key had no effect.
    pub(crate) hint: Option<Hint>,
    /// Whether the selection changed while the card was open.
    pub(crate) has_changed: bool,
    /// Number of rows above the first visible one.
    pub(crate) scroll: usize,
    pub(crate) seen: SeenRows,
}

impl MarkedView {
    pub(crate) fn new(approve: bool, selection: Selection, now_ms: u64) -> Self {
        Self {
            approve,
            selection,
            armed_at_ms: now_ms.saturating_add(KEY_GUARD_MS),
            typed_value: String::new(),
            fault: None,
            hint: None,
            has_changed: false,
            scroll: 0,
            seen: SeenRows::default(),
        }
    }

    /// Returns the value that the operator must type; `None` if a key is enough.
    pub(crate) fn required_value(&self) -> Option<Usd> {
        self.selection.typed_value().filter(|_value| self.approve)
    }

    pub(crate) fn guard_keys(&mut self, now_ms: u64) {
        self.armed_at_ms = now_ms.saturating_add(KEY_GUARD_MS);
    }

    /// Replaces the selection. If it changed, an approval needs the card to be read again from its first row.
    pub(crate) fn replace(&mut self, selection: Selection, now_ms: u64) {
        if self.selection == selection {
            return;
        }
        self.selection = selection;
        self.has_changed = true;
        self.seen = SeenRows::default();
        self.scroll = 0;
        self.typed_value.clear();
        self.fault = None;
        if self.approve {
            self.guard_keys(now_ms);
        }
    }

    pub(crate) fn type_digit(&mut self, digit: char) {
        if self.typed_value.len() < AMOUNT_CHARS_MAX {
            self.typed_value.push(digit);
        }
    }
}
