//! The text of a result: aligned rows and tables. The text contains no characters that move the terminal's cursor, hide
//! text or reorder it.

use bursar_core::text::{quoted, visible};
use zeroize::Zeroizing;

/// Enough for every sheet with a secret. A buffer that grows would leave a copy of the secret behind.
const CAPACITY_BYTES: usize = 16 << 10;
/// Maximum length of a foreign text, in characters.
const FOREIGN_CHARS_MAX: usize = 60;

/// The lines of a result, wiped when dropped.
pub(super) struct Sheet {
    text: Zeroizing<String>,
}

impl Sheet {
    pub(super) fn new() -> Self {
        Self { text: Zeroizing::new(String::with_capacity(CAPACITY_BYTES)) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(escape(text).trim_end());
        self.text.push('\n');
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Adds a line that ends in a secret, and makes no other copy of the secret. The caller ensures that the secret is
    /// plain text.
    pub(super) fn secret(&mut self, before: &str, secret: &str) {
        self.text.push_str(before);
        self.text.push_str(secret);
        self.text.push('\n');
    }

    /// Adds the words of a seed phrase in their order, numbered, four to a line.
    pub(super) fn words(&mut self, phrase: &str) {
        for (index, word) in phrase.split_whitespace().enumerate() {
            let number = index.saturating_add(1);
            self.text.push_str(&format!("{number:>4}  "));
            self.text.push_str(word);
            let ends_line = number.is_multiple_of(4);
            let gap = if ends_line { 0 } else { 10usize.saturating_sub(word.len()) };
            self.text.extend(std::iter::repeat_n(' ', gap));
            if ends_line {
                self.text.push('\n');
            }
        }
        if !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds rows with names on the left and values on the right.
    pub(super) fn rows(&mut self, rows: &[(&str, String)]) {
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in rows {
            self.line(&format!("{name:<width$}  {value}"));
        }
    }

    /// Adds a table with a head. Each column is as wide as its widest cell.
    pub(super) fn table<const N: usize>(&mut self, head: [&str; N], rows: &[[String; N]]) {
        let mut widths = head.map(|cell| cell.chars().count());
        let safe: Vec<[String; N]> =
            rows.iter().map(|row| row.each_ref().map(|c| escape(c))).collect();
        for row in &safe {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let head = head.map(str::to_owned);
        for row in std::iter::once(&head).chain(&safe) {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
            self.line(&cells.collect::<Vec<_>>().join("  "));
        }
    }

    /// Adds the command that the reader most likely needs next.
    pub(super) fn next(&mut self, what: &str, command: &str) {
        self.blank();
        self.line(&format!("{what}: {command}"));
    }
}

/// Replaces every character that could control a terminal by `\u{..}`.
pub(super) fn escape(text: &str) -> String {
    visible(text)
}

/// Quotes foreign text and cuts it after [`FOREIGN_CHARS_MAX`] characters.
pub(super) fn quote_foreign(text: &str) -> String {
    quoted(text, FOREIGN_CHARS_MAX)
}

/// Quotes a word for a shell: names may contain spaces.
pub(super) fn quote_shell_word(text: &str) -> String {
    shlex::try_quote(text).map_or_else(|_nul| quote_foreign(text), std::borrow::Cow::into_owned)
}

/// Formats a number and a noun: `1 agent`, `2 agents`.
pub(super) fn count_text(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheet_contains_no_control_characters() {
        let mut sheet = Sheet::new();
        let evil = "\x1b]0;x\x07\u{9b}2J\r\nexport A=1\u{202e}";
        sheet.line(evil);
        sheet.rows(&[("a", evil.to_owned())]);
        sheet.table(["x", "y"], &[[evil.to_owned(), "1".to_owned()]]);
        sheet.next("Next", evil);
        let safe = |c: char| c == '\n' || (!c.is_control() && c != '\u{202e}');
        assert!(sheet.as_str().chars().all(safe), "{}", sheet.as_str());
        assert!(!sheet.as_str().contains("\nexport"));
    }

    #[test]
    fn command_words_are_quoted_for_a_shell() {
        assert_eq!(quote_shell_word("research"), "research");
        assert_eq!(quote_shell_word("my bot"), "'my bot'");
        assert_eq!(quote_shell_word("a$(b)"), "'a$(b)'");
    }
}
