//! What lies over the panes: one thing at a time, and it has the keys.

use std::collections::BTreeSet;
use std::fmt;

use bursar_core::card::Card;
use bursar_core::wire::{Prompt, SecretPrompt};
use zeroize::Zeroizing;

use super::server::Waiting;
use super::words::{WordCheck, Words};

/// How long a card ignores keys after it opened or changed, and after the last key that it ignored: what
/// was typed or pasted at something else never decides.
pub(crate) const GUARD_MS: u64 = 400;
/// Longest typed amount.
const AMOUNT_CHARS: usize = 24;

#[derive(Debug)]
pub(crate) enum Overlay {
    Card(Box<CardView>),
    Ask(Question),
    /// The answer to a command line.
    Told(Told),
    Help {
        scroll: usize,
    },
    /// Whether the words just shown stand on paper.
    Words(Told, WordCheck),
    /// Leaving would stop the engine that this console is.
    Leave {
        armed_at_ms: u64,
    },
}

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
    Pasted,
    /// Not all that matters was on the screen.
    Unseen,
}

impl Hint {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Hint::OnlyY | Hint::Unseen => "only y, alone, approves",
            Hint::OnlyDigits => "only digits here, then y, alone",
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

/// A question of a running command.
#[derive(Debug)]
pub(crate) struct Question {
    /// The command that asks.
    pub(crate) call: u64,
    pub(crate) command: &'static str,
    pub(crate) prompt: Prompt,
    pub(crate) armed_at_ms: u64,
    pub(crate) field: Field,
    /// The first of two equal entries of a new password.
    pub(crate) first: Option<Field>,
    pub(crate) fault: Option<String>,
    /// It was answered; until the engine has said what came of it, keys go nowhere.
    pub(crate) sent: bool,
}

impl Question {
    pub(crate) fn new(call: u64, command: &'static str, prompt: Prompt, now_ms: u64) -> Self {
        Self {
            call,
            command,
            prompt,
            armed_at_ms: now_ms.saturating_add(GUARD_MS),
            field: Field::default(),
            first: None,
            fault: None,
            sent: false,
        }
    }

    /// A key that came too early, or was no answer: what follows it so soon is none either.
    pub(crate) fn guard(&mut self, now_ms: u64) {
        self.armed_at_ms = now_ms.saturating_add(GUARD_MS);
    }

    pub(crate) fn is_yes_or_no(&self) -> bool {
        matches!(self.prompt, Prompt::Confirm { .. })
    }

    /// Whether what is typed stays hidden.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self.prompt, Prompt::Secret { .. })
    }

    pub(crate) fn takes_paste(&self) -> bool {
        self.is_hidden()
    }

    pub(crate) fn is_new_password(&self) -> bool {
        matches!(self.prompt, Prompt::Secret { what: SecretPrompt::NewPassword })
    }
}

/// Typed text that may be a secret: wiped, and in no `Debug`.
#[derive(Default)]
pub(crate) struct Field(Zeroizing<String>);

/// Longest entry; a seed phrase of 24 words has at most 215 characters.
const FIELD_BYTES: usize = 1024;

impl Field {
    pub(crate) fn push(&mut self, ch: char) {
        if self.0.capacity() < FIELD_BYTES {
            // At its whole size at once: growing would leave copies behind.
            let mut roomy = Zeroizing::new(String::with_capacity(FIELD_BYTES));
            roomy.push_str(&self.0);
            self.0 = roomy;
        }
        if !ch.is_control() && self.0.len().saturating_add(ch.len_utf8()) <= FIELD_BYTES {
            self.0.push(ch);
        }
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn clear(&mut self) {
        self.0 = Zeroizing::default();
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Its bytes, leaving it empty.
    pub(crate) fn take(&mut self) -> Zeroizing<Vec<u8>> {
        let bytes = Zeroizing::new(self.0.as_bytes().to_vec());
        self.clear();
        bytes
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Field(…)")
    }
}

/// Lines to read.
pub(crate) struct Told {
    pub(crate) title: String,
    /// May hold a secret that the command handed out.
    pub(crate) text: Zeroizing<String>,
    pub(crate) scroll: usize,
    pub(crate) failed: bool,
    /// A seed's words are never copied: every program may read a clipboard.
    pub(crate) copies: bool,
    /// Of a seed, shown before the text.
    pub(crate) words: Option<Words>,
    /// Those are asked for, once all of them were on the screen.
    pub(crate) asks: bool,
    /// The rows from the top that were on the screen without a gap, and the columns that they were broken for.
    seen: (usize, usize),
}

impl Told {
    pub(crate) fn new(title: impl Into<String>, text: Zeroizing<String>) -> Self {
        Self {
            title: title.into(),
            text,
            scroll: 0,
            failed: false,
            copies: true,
            words: None,
            asks: false,
            seen: (0, 0),
        }
    }

    /// Notes that `shown` rows are on the screen, broken for `width` columns.
    pub(crate) fn see(&mut self, scroll: usize, shown: usize, width: usize) {
        if self.seen.1 != width {
            self.seen = (0, width);
        }
        if scroll <= self.seen.0 {
            self.seen.0 = self.seen.0.max(scroll.saturating_add(shown));
        }
    }

    pub(crate) fn has_seen(&self, rows: usize, width: usize) -> bool {
        self.seen.1 == width && self.seen.0 >= rows
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").field("title", &self.title).finish_non_exhaustive()
    }
}
