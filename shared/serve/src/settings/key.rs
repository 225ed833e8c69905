//! One key: what it is called, what it is until somebody sets it, what it means, and how it is set.

use std::fmt;
use std::fmt::Write;

use super::Given;

/// One row of a service's table of keys.
pub struct Key<T: 'static> {
    /// In the file; in a further table within that.
    pub name: &'static str,
    /// In the environment; of a further table without its suffix.
    pub variable: &'static str,
    /// In words, as it would be written.
    pub default: &'static str,
    pub meaning: &'static str,
    /// An error says what is wanted, and not what was given.
    pub set: fn(&mut T, Given<'_>) -> Result<(), String>,
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Puts a value that could be understood into its place.
///
/// # Errors
/// Why it could not.
pub fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *place = value)
}

/// Above the [`rows`] of the manual.
pub const HEAD: &str = "| Key | Variable | Default | Meaning |\n|---|---|---|---|\n";

/// The manual: every key with its variable, its default and its meaning.
pub fn rows<T>(keys: &[Key<T>], prefix: &str, suffix: &str) -> String {
    let mut rows = String::new();
    for Key { name, variable, default, meaning, .. } in keys {
        // Writing to a string cannot fail.
        let _written =
            writeln!(rows, "| `{prefix}{name}` | `{variable}{suffix}` | {default} | {meaning} |");
    }
    rows
}
