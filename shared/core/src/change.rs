//! Changes of policies and settings, field by field, with the old and the new value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A changed field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// The field's path in answers, such as `payments.per_request`, or the setting's key.
    pub field: String,
    /// The field's name for operators.
    pub name: String,
    pub from: String,
    pub to: String,
    /// The unit of both values, such as `USD`; empty if they need none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The change may allow more than before, or remove a protection.
    pub loosens: bool,
}

impl Change {
    /// Formats the change: `max per payment 10.00 -> 100.00 USD`.
    pub fn text(&self) -> String {
        let Self { name, from, to, unit, .. } = self;
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        format!("{name} {from} -> {to}{unit}")
    }
}

/// Joins all changes on one line.
pub fn describe(changes: &[Change]) -> String {
    changes.iter().map(Change::text).collect::<Vec<_>>().join("; ")
}

/// Formats a switch as `on` or `off`.
pub(crate) fn switch_text(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// Maximum number of entries shown of one list: a line of `activity` must stay readable and fit a frame.
const ENTRIES_SHOWN_MAX: usize = 8;

/// Formats the old and the new list. Long lists show only the removed and the added entries.
pub(crate) fn list_change(old: &[&str], new: &[&str], none: &str) -> (String, String) {
    if old.len().max(new.len()) <= ENTRIES_SHOWN_MAX {
        return (list(old, none), list(new, none));
    }
    let without = |all: &[&str], other: &[&str], word: &str| {
        let gone: Vec<&str> = all.iter().filter(|one| !other.contains(one)).copied().collect();
        let rest = gone.len().saturating_sub(ENTRIES_SHOWN_MAX);
        let mut text = format!("{} entries", all.len());
        if !gone.is_empty() {
            let named: Vec<&str> = gone.into_iter().take(ENTRIES_SHOWN_MAX).collect();
            text.push_str(&format!(" {word} {}", named.join(", ")));
        }
        if rest > 0 {
            text.push_str(&format!(" and {rest} more"));
        }
        text
    };
    (without(old, new, "with"), without(new, old, "now with"))
}

fn list(entries: &[&str], none: &str) -> String {
    if entries.is_empty() { none.to_owned() } else { entries.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_show_only_removed_and_added_entries() {
        let names: Vec<String> = (0..40).map(|n| format!("h{n}.example")).collect();
        let old: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut new = old.clone();
        new.remove(3);
        new.push("new.example");
        let (from, to) = list_change(&old, &new, "none");
        assert_eq!(from, "40 entries with h3.example");
        assert_eq!(to, "40 entries now with new.example");
        let (from, to) = list_change(&old, &[], "none");
        assert!(from.ends_with("h7.example and 32 more"), "{from}");
        assert_eq!(to, "0 entries");
        assert_eq!(list_change(&["a"], &[], "none"), ("a".to_owned(), "none".to_owned()));
    }
}
