//! The overlays on top of the panes. At most one is open, and it receives the keys.

use std::fmt;

use bursar_control::wire::{Prompt, SecretPrompt};
use zeroize::Zeroizing;

use super::card::KEY_GUARD_MS;
pub(crate) use super::card::{CardView, Hint, RowKey};
use super::exports::FileQuestion;
pub(crate) use super::field::Field;
use super::marked::MarkedView;
use super::seen_rows::SeenRows;
use super::words::{WordCheck, Words};

#[derive(Debug)]
pub(crate) enum Overlay {
    Card(Box<CardView>),
    /// The card of one decision about marked requests.
    Marked(Box<MarkedView>),
    Ask(Question),
    /// The question before a command that writes or reads a file.
    AskFile(Box<FileQuestion>),
    /// A text to read: the answer to a command line, a parse error or a journal entry.
    Text(TextView),
    Help {
        scroll: usize,
    },
    /// Checks whether the words just shown were written down.
    Words(TextView, WordCheck),
    /// Asks before leaving, because leaving stops the engine in this process.
    ConfirmLeave {
        armed_at_ms: u64,
    },
}

/// A question of a running command.
#[derive(Debug)]
pub(crate) struct Question {
    /// The id of the command that asks.
    pub(crate) call: u64,
    pub(crate) command: &'static str,
    pub(crate) prompt: Prompt,
    pub(crate) armed_at_ms: u64,
    pub(crate) field: Field,
    /// The first entry of a new password, which is entered twice.
    pub(crate) first_entry: Option<Field>,
    pub(crate) fault: Option<String>,
    /// What the command reported since the answer was sent.
    pub(crate) progress: Option<String>,
    /// Whether the answer was sent. Until the engine responds, only a key that closes the question has an effect.
    pub(crate) is_sent: bool,
}

impl Question {
    pub(crate) fn new(call: u64, command: &'static str, prompt: Prompt, now_ms: u64) -> Self {
        Self {
            call,
            command,
            prompt,
            armed_at_ms: now_ms.saturating_add(KEY_GUARD_MS),
            field: Field::default(),
            first_entry: None,
            fault: None,
            progress: None,
            is_sent: false,
        }
    }

    /// Ignores keys for a moment, for example after a key that was too early.
    pub(crate) fn guard(&mut self, now_ms: u64) {
        self.armed_at_ms = now_ms.saturating_add(KEY_GUARD_MS);
    }

    pub(crate) fn is_yes_or_no(&self) -> bool {
        matches!(self.prompt, Prompt::Confirm { .. })
    }

    /// Returns whether the typed text stays hidden.
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

/// Text to read.
pub(crate) struct TextView {
    pub(crate) title: String,
    /// The text, which may contain a secret that the command returned.
    pub(crate) text: Zeroizing<String>,
    pub(crate) scroll: usize,
    pub(crate) failed: bool,
    /// Whether the text may be copied. A seed's words may not, because any program can read the clipboard.
    pub(crate) is_copyable: bool,
    /// The words of a seed, shown before the text.
    pub(crate) words: Option<Words>,
    /// Whether the operator must check the words once all of them were visible.
    pub(crate) checks_words: bool,
    pub(crate) seen: SeenRows,
    /// The running command that the text is about. The text closes when that command ends.
    pub(crate) call: Option<u64>,
}

impl TextView {
    pub(crate) fn new(title: impl Into<String>, text: Zeroizing<String>) -> Self {
        Self {
            title: title.into(),
            text,
            scroll: 0,
            failed: false,
            is_copyable: true,
            words: None,
            checks_words: false,
            seen: SeenRows::default(),
            call: None,
        }
    }
}

impl fmt::Debug for TextView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextView").field("title", &self.title).finish_non_exhaustive()
    }
}
