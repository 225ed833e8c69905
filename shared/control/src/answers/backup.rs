//! Results of `wallet backup` and `wallet restore`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A backup that was written and read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupAnswer {
    pub file: String,
    /// The wallet's name.
    pub wallet: String,
    /// Number of journal entries.
    pub entries: u64,
    /// Hash of the newest entry, for `audit verify --head`.
    pub head: String,
    /// Length of the file.
    pub bytes: u64,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

/// A backup that was restored into the data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoreAnswer {
    /// The wallet's name.
    pub wallet: String,
    /// Number of journal entries.
    pub entries: u64,
    /// The folder with the files that were there before; `None` if there were none.
    pub replaced: Option<String>,
}
