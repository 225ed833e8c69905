//! Answers of `wallet backup` and `wallet restore`.

use serde::{Deserialize, Serialize};

/// A backup that was written and read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupAnswer {
    pub file: String,
    /// The wallet's name.
    pub wallet: String,
    /// Entries of the journal.
    pub entries: u64,
    /// Hash of the newest one, for `audit verify --head`.
    pub head: String,
    /// Length of the file.
    pub bytes: u64,
    /// Of the file, in hex.
    pub sha256: String,
}

/// A backup whose files are in the data folder now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreAnswer {
    /// The wallet's name.
    pub wallet: String,
    /// Entries of the journal.
    pub entries: u64,
    /// The folder that has what was there before.
    pub replaced: Option<String>,
}
