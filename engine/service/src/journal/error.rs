//! Why the journal cannot be used.

use super::store::StoreError;

/// An error of the journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("the journal is damaged at entry {seq}: {reason}")]
    Damaged { seq: u64, reason: String },
    #[error(
        "no entry has this head: check your typing; otherwise the journal was shortened or replaced since \
         you noted it"
    )]
    HeadUnmet,
    #[error(transparent)]
    Store(#[from] StoreError),
}
