//! The open card: the rows that were visible, the times from which its keys count, and the last decision's result.

use std::collections::BTreeSet;

use bursar_core::card::Card;

use super::queued::QueuedRequest;

/// How long keys that decide are ignored after a card or question opened, and approvals after the card changed.
///
/// An ignored key restarts this time. So input that was typed or pasted for something else never decides.
pub(crate) const KEY_GUARD_MS: u64 = 400;

/// Like [`KEY_GUARD_MS`], for a card that opened by itself: the operator must notice it first.
pub(crate) const DIALOG_GUARD_MS: u64 = 1_000;

/// Maximum number of characters of a typed amount.
pub(super) const AMOUNT_CHARS_MAX: usize = 24;

/// One open card and the state of its keys.
#[derive(Debug)]
pub(crate) struct CardView {
    pub(crate) id: String,
    pub(crate) card: Card,
    /// An approval counts from this time on.
    pub(crate) armed_at_ms: u64,
    /// A denial counts from this time on. Changes do not delay it, so that a card can always be denied.
    pub(crate) deniable_at_ms: u64,
    /// The typed amount, on a card that requires it.
    pub(crate) typed_amount: String,
    /// Whether a decision was sent. Until its answer arrives, no other decision on this card is sent.
    pub(crate) is_sent: bool,
    /// Why the last decision failed.
    pub(crate) fault: Option<String>,
    /// Why the last key had no effect.
    pub(crate) hint: Option<Hint>,
    /// Whether the card was opened with the key for denials, so that it cannot be approved.
    pub(crate) opened_to_deny: bool,
    /// Whether the card opened without a key of the operator.
    pub(crate) opened_by_itself: bool,
    /// Whether the card changed while it was open.
    pub(crate) has_changed: bool,
    /// Number of rows above the first visible one.
    pub(crate) scroll: usize,
    /// The rows that have been visible since the card last changed.
    visible_rows: BTreeSet<RowKey>,
    /// The width of the seen rows. At another width the lines wrap differently.
    visible_width: usize,
}

/// Why a key had no effect on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The key has no function on a card.
    OnlyY,
    /// Two keys were pressed at once.
    TwoKeys,
    /// The key has no function on a card that requires a typed amount.
    OnlyDigits,
    /// The key has no function on a card that cannot be approved.
    OnlyN,
    Pasted,
    /// The key decides, but it was pressed too early.
    TooEarly,
    /// Not every row that an approval needs was visible.
    RowsUnseen,
}

impl Hint {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Hint::OnlyY | Hint::RowsUnseen => "press only y to approve",
            Hint::TwoKeys => "two keys at once count as pasted text: press one",
            Hint::OnlyDigits => "type digits, then only y",
            Hint::OnlyN => "this key does nothing here",
            Hint::TooEarly => "too early: press the key again",
            Hint::Pasted => "pasted text is not taken here: type it",
        }
    }
}

/// A row of a card: the index of its line, and the index of the piece if the line is wrapped.
pub(crate) type RowKey = (usize, usize);

impl CardView {
    pub(crate) fn of(waiting: &QueuedRequest, now_ms: u64) -> Option<Self> {
        Some(Self {
            id: waiting.request.id.clone(),
            card: waiting.request.card.clone()?,
            armed_at_ms: now_ms.saturating_add(KEY_GUARD_MS),
            deniable_at_ms: now_ms.saturating_add(KEY_GUARD_MS),
            typed_amount: String::new(),
            is_sent: false,
            fault: None,
            hint: None,
            opened_to_deny: false,
            opened_by_itself: false,
            has_changed: false,
            scroll: 0,
            visible_rows: BTreeSet::new(),
            visible_width: 0,
        })
    }

    /// Returns whether the card can be approved. A request that waits for its device has been approved already.
    pub(crate) fn may_be_approved(&self) -> bool {
        !self.opened_to_deny && self.card.obstacle.is_none() && self.card.device.is_none()
    }

    /// Returns whether the operator must type the amount to approve the card.
    pub(crate) fn requires_typed_amount(&self) -> bool {
        self.card.type_amount && self.may_be_approved()
    }

    /// Records the rows that are visible now.
    pub(crate) fn record_visible(&mut self, width: usize, rows: impl Iterator<Item = RowKey>) {
        if self.visible_width != width {
            self.visible_rows.clear();
            self.visible_width = width;
        }
        self.visible_rows.extend(rows);
    }

    pub(crate) fn was_visible(&self, width: usize, row: &RowKey) -> bool {
        self.visible_width == width && self.visible_rows.contains(row)
    }

    /// Replaces the card. If its terms or its obstacle changed, approvals are ignored for [`KEY_GUARD_MS`].
    pub(crate) fn replace_card(&mut self, card: &Card, now_ms: u64) {
        let kinds = |card: &Card| card.risks.iter().map(|risk| risk.kind).collect::<Vec<_>>();
        let same_terms = card.digest == self.card.digest
            && card.usd == self.card.usd
            && card.type_amount == self.card.type_amount
            && kinds(card) == kinds(&self.card);
        let same = same_terms && card.obstacle == self.card.obstacle;
        let warns = |card: &Card| (card.has_unknown_payee(), card.has_insufficient_balance());
        let same_warnings = warns(card) == warns(&self.card);
        // The agent's spending and the balance of its address change often, so they do not change the card.
        self.card = card.clone();
        if !same || !same_warnings {
            // The operator must read the card again from its first row.
            self.visible_rows.clear();
            self.scroll = 0;
        }
        if !same_terms {
            self.typed_amount.clear();
        }
        if !same {
            self.has_changed = true;
            self.fault = None;
            self.hint = None;
            self.armed_at_ms = now_ms.saturating_add(KEY_GUARD_MS);
        }
    }

    /// Turns the card into the one that denies, or into the one that approves. The operator reads it again.
    pub(crate) fn switch(&mut self, to_deny: bool) {
        self.opened_to_deny = to_deny;
        self.visible_rows.clear();
        self.scroll = 0;
        self.typed_amount.clear();
    }

    /// Returns a card that opens by itself.
    pub(crate) fn by_itself(waiting: &QueuedRequest, now_ms: u64) -> Option<Self> {
        let mut view = Self { opened_by_itself: true, ..Self::of(waiting, now_ms)? };
        view.guard_keys(now_ms);
        Some(view)
    }

    pub(crate) fn guard_keys(&mut self, now_ms: u64) {
        let guard_ms = if self.opened_by_itself { DIALOG_GUARD_MS } else { KEY_GUARD_MS };
        self.armed_at_ms = now_ms.saturating_add(guard_ms);
        self.deniable_at_ms = self.armed_at_ms;
    }

    pub(crate) fn type_digit(&mut self, digit: char) {
        if self.typed_amount.len() < AMOUNT_CHARS_MAX {
            self.typed_amount.push(digit);
        }
    }
}
