//! The command line at the bottom: one line of text with a cursor, and the history of entered lines.

use std::collections::VecDeque;

/// Maximum number of remembered lines.
const HISTORY_MAX: usize = 200;
/// Maximum number of characters of a line.
const LINE_CHARS_MAX: usize = 512;

/// A line being edited. Positions count characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    text: Vec<char>,
    cursor: usize,
    /// The position in the history, newest first from 1; 0 is the line being written.
    history_position: usize,
    draft: Vec<char>,
}

impl Line {
    pub(crate) fn of(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        Self { cursor: text.len(), text, ..Self::default() }
    }

    pub(crate) fn text(&self) -> String {
        self.text.iter().collect()
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn insert(&mut self, ch: char) {
        if !ch.is_control() && self.text.len() < LINE_CHARS_MAX {
            self.text.insert(self.cursor.min(self.text.len()), ch);
            self.cursor = self.cursor.saturating_add(1);
        }
    }

    pub(crate) fn backspace(&mut self) {
        if self.cursor > 0 {
            self.cursor = self.cursor.saturating_sub(1);
            self.text.remove(self.cursor);
        }
    }

    pub(crate) fn delete(&mut self) {
        if self.cursor < self.text.len() {
            self.text.remove(self.cursor);
        }
    }

    pub(crate) fn move_left(&mut self) {
        self.cursor = self.cursor.saturating_sub(1);
    }

    pub(crate) fn move_right(&mut self) {
        self.cursor = self.cursor.saturating_add(1).min(self.text.len());
    }

    pub(crate) fn home(&mut self) {
        self.cursor = 0;
    }

    pub(crate) fn end(&mut self) {
        self.cursor = self.text.len();
    }

    /// Deletes everything before the cursor.
    pub(crate) fn kill_to_start(&mut self) {
        self.text.drain(..self.cursor.min(self.text.len()));
        self.cursor = 0;
    }

    /// Deletes the word before the cursor.
    pub(crate) fn kill_word(&mut self) {
        while self.cursor > 0 && self.text.get(self.cursor.wrapping_sub(1)) == Some(&' ') {
            self.backspace();
        }
        while self.cursor > 0 && self.text.get(self.cursor.wrapping_sub(1)) != Some(&' ') {
            self.backspace();
        }
    }

    /// Replaces the text and puts the cursor at its end.
    pub(crate) fn replace(&mut self, text: &str) {
        self.text = text.chars().take(LINE_CHARS_MAX).collect();
        self.cursor = self.text.len();
    }

    pub(crate) fn older(&mut self, history: &LineHistory) {
        if self.history_position == 0 {
            self.draft = self.text.clone();
        }
        if let Some(line) = history.0.get(self.history_position) {
            let line = line.clone();
            self.replace(&line);
            self.history_position = self.history_position.saturating_add(1);
        }
    }

    pub(crate) fn newer(&mut self, history: &LineHistory) {
        self.history_position = self.history_position.saturating_sub(1);
        let line = match self.history_position.checked_sub(1) {
            Some(index) => history.0.get(index).cloned(),
            None => Some(self.draft.iter().collect()),
        };
        if let Some(line) = line {
            self.replace(&line);
        }
    }
}

/// The valid commands that were entered, newest first.
///
/// Invalid input is not kept, because it may be a secret that was pasted by mistake. A command with a URL is kept in
/// memory but not on disk, because the URL may contain an API key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineHistory(pub(crate) VecDeque<String>);

impl LineHistory {
    pub(crate) fn remember(&mut self, line: &str) {
        if line.trim().is_empty() || self.0.front().is_some_and(|last| last == line) {
            return;
        }
        self.0.push_front(line.to_owned());
        self.0.truncate(HISTORY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_at_its_cursor() {
        let mut line = Line::of("agent lst");
        line.move_left();
        line.move_left();
        line.insert('i');
        assert_eq!((line.text().as_str(), line.cursor()), ("agent list", 8));
        line.end();
        line.kill_word();
        assert_eq!(line.text(), "agent ");
        line.kill_word();
        line.backspace();
        line.delete();
        assert_eq!((line.text().as_str(), line.cursor()), ("", 0));
        line.insert('\u{1b}');
        assert_eq!(line.text(), "");
    }

    #[test]
    fn history_keys_recall_lines_and_keep_the_draft() {
        let mut history = LineHistory::default();
        for text in ["status", "agent list", "agent list", "  "] {
            history.remember(text);
        }
        let mut line = Line::of("dra");
        line.older(&history);
        assert_eq!(line.text(), "agent list");
        line.older(&history);
        line.older(&history);
        assert_eq!(line.text(), "status");
        line.newer(&history);
        line.newer(&history);
        assert_eq!(line.text(), "dra");
        line.newer(&history);
        assert_eq!(line.text(), "dra");
    }
}
