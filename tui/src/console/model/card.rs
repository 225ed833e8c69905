//! The card that is open: what of it was seen, when its keys count, and what they were answered.

use std::collections::BTreeSet;

use bursar_core::card::Card;

use super::overlay::GUARD_MS;
use super::server::Waiting;

/// Longest typed amount.
const AMOUNT_CHARS: usize = 24;

/// One card, as it was when its keys were last armed.
#[derive(Debug)]
pub(crate) struct CardView {
    pub(crate) id: String,
    pub(crate) card: Card,
    /// An approval counts from then on.
    pub(crate) armed_at_ms: u64,
    /// A denial does: a card that changes again and again can still be denied.
    pub(crate) deniable_at_ms: u64,
    /// The amount as typed, where it must be.
    pub(crate) typed: String,
    /// The decision was sent; nothing else is until its answer came.
    pub(crate) sent: bool,
    /// Why the last decision came to nothing.
    pub(crate) fault: Option<String>,
    /// Why the last key did nothing.
    pub(crate) hint: Option<Hint>,
    /// It was opened with the key of a denial.
    pub(crate) to_deny: bool,
    /// What is shown changed while it was open.
    pub(crate) changed: bool,
    /// Rows above the first one in sight, where not all of them fit.
    pub(crate) scroll: usize,
    /// The rows that were on the screen since the card last changed.
    seen: BTreeSet<RowKey>,
    /// How wide they were broken: another width makes other rows.
    seen_width: usize,
}

/// Why a key did nothing on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// Another key, or two at once.
    OnlyY,
    OnlyDigits,
    /// Another key, where nothing can be approved.
    OnlyN,
    Pasted,
    /// It would have decided, a moment later.
    Early,
    /// Not all that matters was on the screen.
    Unseen,
}

impl Hint {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Hint::OnlyY | Hint::Unseen => "press only y to approve",
            Hint::OnlyDigits => "type digits, then only y",
            Hint::OnlyN => "this key does nothing here",
            Hint::Early => "too early: press the key again",
            Hint::Pasted => "pasted text is not taken here: type it",
        }
    }
}

/// A row of a card: which of its lines, and which piece of it where it had to be broken.
pub(crate) type RowKey = (usize, usize);

impl CardView {
    pub(crate) fn of(waiting: &Waiting, now_ms: u64) -> Option<Self> {
        Some(Self {
            id: waiting.request.id.clone(),
            card: waiting.request.card.clone()?,
            armed_at_ms: now_ms.saturating_add(GUARD_MS),
            deniable_at_ms: now_ms.saturating_add(GUARD_MS),
            typed: String::new(),
            sent: false,
            fault: None,
            hint: None,
            to_deny: false,
            changed: false,
            scroll: 0,
            seen: BTreeSet::new(),
            seen_width: 0,
        })
    }

    /// Notes what is on the screen now.
    pub(crate) fn see(&mut self, width: usize, rows: impl Iterator<Item = RowKey>) {
        if self.seen_width != width {
            self.seen.clear();
            self.seen_width = width;
        }
        self.seen.extend(rows);
    }

    pub(crate) fn has_seen(&self, width: usize, row: &RowKey) -> bool {
        self.seen_width == width && self.seen.contains(row)
    }

    /// Shows what is true now. Where that is another card than before, its keys are dead for a moment.
    pub(crate) fn follow(&mut self, card: &Card, now_ms: u64) {
        let same_terms = card.digest == self.card.digest
            && card.usd == self.card.usd
            && card.type_amount == self.card.type_amount;
        let same = same_terms && card.obstacle == self.card.obstacle;
        let warns = |card: &Card| (card.is_stranger(), card.is_short());
        let same_warnings = warns(card) == warns(&self.card);
        // What the agent has spent and what its address holds move by themselves, and are no other card.
        self.card = card.clone();
        if !same || !same_warnings {
            // To be read anew, from its beginning.
            self.seen.clear();
            self.scroll = 0;
        }
        if !same_terms {
            self.typed.clear();
        }
        if !same {
            self.changed = true;
            self.fault = None;
            self.hint = None;
            self.armed_at_ms = now_ms.saturating_add(GUARD_MS);
        }
    }

    pub(crate) fn guard(&mut self, now_ms: u64) {
        self.armed_at_ms = now_ms.saturating_add(GUARD_MS);
        self.deniable_at_ms = self.armed_at_ms;
    }

    pub(crate) fn type_digit(&mut self, digit: char) {
        if self.typed.len() < AMOUNT_CHARS {
            self.typed.push(digit);
        }
    }
}
