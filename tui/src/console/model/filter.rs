//! The filter of a list, which the operator types after `/`.

/// Maximum number of characters of a filter.
const FILTER_CHARS_MAX: usize = 60;

/// The text of a filter. A list shows the rows that contain it; after a `!`, those that do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
    lowercase: String,
}

impl Filter {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn push(&mut self, ch: char) {
        if !ch.is_control() && self.text.chars().count() < FILTER_CHARS_MAX {
            self.text.push(ch);
            self.lowercase = self.text.to_lowercase();
        }
    }

    pub(crate) fn pop(&mut self) {
        self.text.pop();
        self.lowercase = self.text.to_lowercase();
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.lowercase.clear();
    }

    /// Returns whether the filter hides no row.
    pub(crate) fn is_idle(&self) -> bool {
        self.text.trim_start_matches('!').is_empty()
    }

    /// Returns whether a row with this text is shown. Upper and lower case are the same.
    pub(crate) fn shows(&self, row: &str) -> bool {
        let (is_inverse, part) = match self.lowercase.strip_prefix('!') {
            Some(part) => (true, part),
            None => (false, self.lowercase.as_str()),
        };
        part.is_empty() || row.to_lowercase().contains(part) != is_inverse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_shows_rows_that_contain_it_and_after_a_mark_the_others() {
        let of = |text: &str| {
            let mut filter = Filter::default();
            text.chars().for_each(|ch| filter.push(ch));
            filter
        };
        for (text, shown, hidden) in
            [("", true, true), ("!", true, true), ("READER", true, false), ("!reader", false, true)]
        {
            let filter = of(text);
            assert_eq!(
                (filter.shows("a Reader, 1.5 USDC"), filter.shows("trader")),
                (shown, hidden),
                "{text}"
            );
            assert_eq!(filter.is_idle(), shown && hidden, "{text}");
        }
        assert_eq!(of("a\u{1b}b").text(), "ab");
        assert_eq!(of(&"x".repeat(200)).text().len(), FILTER_CHARS_MAX);
    }
}
