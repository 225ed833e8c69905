//! Checks whether the words of a new seed were written down, by asking for three of them.

use zeroize::Zeroizing;

use super::field::Field;

/// Number of words that the check asks for.
const WORDS_TO_CHECK: usize = 3;
/// Maximum number of words in a row.
const COLUMNS_MAX: usize = 4;
/// Width of a number and its word of at most eight letters.
const CELL_WIDTH: usize = 12;
/// Spaces between two words in a row.
const GAP_WIDTH: usize = 3;

#[derive(Debug)]
pub(crate) struct WordCheck {
    words: Words,
    /// Indices of the words to request, from 0.
    asked_indices: Vec<usize>,
    /// Number of words entered correctly.
    correct_count: usize,
    pub(crate) field: Field,
    pub(crate) fault: Option<String>,
}

/// The words of a seed phrase. They are wiped, and `Debug` does not show them.
pub(crate) struct Words(Zeroizing<String>);

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Words(…)")
    }
}

impl Words {
    pub(crate) fn of(phrase: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(phrase).ok()?;
        let words = Self(Zeroizing::new(text.to_owned()));
        (words.count() >= WORDS_TO_CHECK).then_some(words)
    }

    /// Returns the numbered words row by row, in as many columns as fit into `room`.
    pub(crate) fn rows(&self, room: usize) -> Vec<String> {
        let columns = (room.saturating_add(GAP_WIDTH) / CELL_WIDTH.saturating_add(GAP_WIDTH))
            .clamp(1, COLUMNS_MAX);
        let words: Vec<&str> = self.0.split_whitespace().collect();
        let line = |(line, words): (usize, &[&str])| {
            let first = line.saturating_mul(columns).saturating_add(1);
            let cells =
                (first..).zip(words).map(|(number, word)| format!("{number:>2}  {word:<8}"));
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP_WIDTH)).trim_end().to_owned()
        };
        words.chunks(columns).enumerate().map(line).collect()
    }

    fn count(&self) -> usize {
        self.0.split_whitespace().count()
    }
}

/// The result of an entered word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryResult {
    Next,
    Wrong,
    All,
}

impl WordCheck {
    /// Picks one word from each third of the phrase. `salt`, the time at which the check starts, varies the choice.
    pub(crate) fn of(words: Words, salt: u64) -> Self {
        let third = (words.count() / WORDS_TO_CHECK).max(1);
        let within = |part: usize| {
            // Each third uses different bits of the salt.
            let digits =
                salt.checked_shr(u32::try_from(part).unwrap_or(0).saturating_mul(3)).unwrap_or(0);
            usize::try_from(digits).unwrap_or(0).checked_rem(third).unwrap_or(0)
        };
        let asked = (0..WORDS_TO_CHECK)
            .map(|part| part.saturating_mul(third).saturating_add(within(part)))
            .collect();
        Self { words, asked_indices: asked, correct_count: 0, field: Field::default(), fault: None }
    }

    /// Returns the number of the word that is asked for, from 1.
    pub(crate) fn number(&self) -> usize {
        self.asked_indices.get(self.correct_count).map_or(0, |index| index.saturating_add(1))
    }

    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.correct_count, self.asked_indices.len())
    }

    pub(crate) fn enter(&mut self) -> EntryResult {
        let index = self.asked_indices.get(self.correct_count).copied().unwrap_or(0);
        let wanted = self.words.0.split_whitespace().nth(index);
        let same = wanted == Some(self.field.text().trim().to_lowercase().as_str());
        self.field.clear();
        if !same {
            self.fault = Some("This word is wrong: check what you wrote down.".to_owned());
            return EntryResult::Wrong;
        }
        self.fault = None;
        self.correct_count = self.correct_count.saturating_add(1);
        if self.correct_count == self.asked_indices.len() {
            EntryResult::All
        } else {
            EntryResult::Next
        }
    }

    /// Returns the words, to show them again.
    pub(crate) fn into_words(self) -> Words {
        self.words
    }
}
