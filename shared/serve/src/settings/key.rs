//! One key of a service's settings.

use std::fmt;
use std::fmt::Write;

use super::raw_setting::RawSetting;

/// One row of a service's table of keys.
pub struct Key<T: 'static> {
    /// Name in the file, without the prefix of a further table.
    pub name: &'static str,
    /// Variable in the environment, without the suffix of a further table.
    pub variable: &'static str,
    /// The default, as the manual shows it.
    pub default: &'static str,
    pub meaning: &'static str,
    /// Parses and stores a value.
    ///
    /// Errors name the accepted form and never repeat the value.
    pub set: fn(&mut T, RawSetting<'_>) -> Result<(), String>,
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Stores a value that was parsed, or returns the parser's error.
///
/// # Errors
/// The error in `value`.
pub fn put<T>(target: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *target = value)
}

/// The head of the manual's table whose rows [`table_rows`] formats.
pub const TABLE_HEAD: &str = "| Key | Variable | Default | Meaning |\n|---|---|---|---|\n";

/// Formats the manual's rows: every key with its variable, default and meaning.
pub fn table_rows<T>(keys: &[Key<T>], prefix: &str, suffix: &str) -> String {
    let mut rows = String::new();
    for Key { name, variable, default, meaning, .. } in keys {
        // Writing to a string cannot fail.
        let _written =
            writeln!(rows, "| `{prefix}{name}` | `{variable}{suffix}` | {default} | {meaning} |");
    }
    rows
}
