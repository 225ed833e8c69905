//! Errors of settings. Each is one sentence that names the place and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use bursar_core::text::snippet;

/// The setting that is wrong, and the reason.
///
/// Values that may be secret are not repeated.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFault {
    #[error("{} cannot be read ({source}): correct its name or its mode.", display_path(file))]
    Unreadable { file: PathBuf, source: io::Error },
    #[error(
        "{} is a secret, and this platform cannot show who may read a file: set the secret in the \
         environment instead.",
        display_path(file)
    )]
    ReadableByOthers { file: PathBuf },
    #[error("{} is longer than {max} bytes: use another file.", display_path(file))]
    TooLong { file: PathBuf, max: u64 },
    #[error(
        "{}, line {line}, is not valid TOML ({}): correct the line.",
        display_path(file),
        snippet(why)
    )]
    NotToml { file: PathBuf, line: usize, why: String },
    #[error("{} in {}: {why}.", snippet(key), display_path(file))]
    Key { file: PathBuf, key: String, why: String },
    #[error("{variable} in the environment: {why}.")]
    Variable { variable: String, why: String },
    #[error("{} is not a valid file of API keys: {why}.", display_path(file))]
    ApiKeys { file: PathBuf, why: String },
}

/// A wrong key of a file, and the reason.
///
/// The caller adds the file with [`InvalidKey::in_file`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidKey {
    /// The key with the names of the tables before it.
    pub key: String,
    pub why: String,
}

impl InvalidKey {
    /// Returns the error for this key of `file`.
    pub fn in_file(self, file: &Path) -> ConfigFault {
        ConfigFault::Key { file: file.to_owned(), key: self.key, why: self.why }
    }
}

/// Returns a path in the form for messages: cut, and without control characters.
fn display_path(file: &Path) -> String {
    snippet(&file.to_string_lossy())
}
