//! The operator's name for a payee. It is shown next to the address and never decides.

use std::fmt;
use std::str::FromStr;

use serde_with::{DeserializeFromStr, SerializeDisplay};
use unicode_security::skeleton;

use crate::ids::IdError;
use crate::text::visible;

/// Maximum number of characters of a label.
const LABEL_CHARS_MAX: usize = 60;

/// A label: 1 to 60 printable characters, of which one is a letter or a digit.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, SerializeDisplay, DeserializeFromStr,
)]
pub struct PayeeLabel(String);

impl PayeeLabel {
    /// Returns the label as the operator wrote it, without surrounding spaces.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a reader may mistake one label for the other (UTS 39), ignoring case and spaces.
    pub fn looks_like(&self, other: &str) -> bool {
        let [one, other] = [self.as_str(), other].map(|text| text.replace(' ', ""));
        let lower = |text: &str| skeleton(&text.to_lowercase()).collect::<String>().to_lowercase();
        skeleton(&one).eq(skeleton(&other)) || lower(&one) == lower(&other)
    }
}

impl FromStr for PayeeLabel {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let text = text.trim_matches(' ');
        let is_short = text.chars().nth(LABEL_CHARS_MAX).is_none();
        // Characters that are invisible or reorder others are shown as escapes.
        if is_short && text.chars().any(char::is_alphanumeric) && visible(text) == text {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError("a label is 1 to 60 printable characters, with a letter or a digit"))
        }
    }
}

impl fmt::Display for PayeeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_printable_text_in_any_script() {
        for good in ["Acme", "Müller & Söhne", "株式会社", " Acme 2 "] {
            let label: PayeeLabel = good.parse().unwrap();
            assert_eq!(label.as_str(), good.trim());
        }
        let long = "x".repeat(61);
        for bad in ["", "  ", "--", "a\nb", "a\tb", "a\u{202e}b", "a\u{200b}b", "a\u{1b}[2J", &long]
        {
            assert!(bad.parse::<PayeeLabel>().is_err(), "{bad:?}");
        }
        assert!("x".repeat(60).parse::<PayeeLabel>().is_ok());
    }

    #[test]
    fn labels_that_can_be_mistaken_look_alike() {
        let label: PayeeLabel = "PayPal".parse().unwrap();
        for alike in ["paypal", "Pay Pal", "PayPaI", "P\u{0430}yPal", "PayPa1"] {
            assert!(label.looks_like(alike), "{alike}");
        }
        for other in ["PayPall", "Pal", "Acme"] {
            assert!(!label.looks_like(other), "{other}");
        }
    }
}
