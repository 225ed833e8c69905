//! The errors of the journal.

use bursar_core::codes::Code;
use bursar_core::edition::EditionName;
use bursar_core::fault::Fault;

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
    /// The caller that read the chain stopped the work.
    #[error("the caller stopped the check of the journal before its end")]
    Stopped,
    #[error("it belongs to {}, and this program is {}", journal.text(), program.text())]
    WrongEdition { journal: EditionName, program: EditionName },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Converts a failed read into the error that the operator receives.
pub fn read_fault(error: &StoreError) -> Fault {
    match error {
        StoreError::DiskFull(_) => Fault::new(Code::DiskFull).with_detail(error),
        StoreError::Corrupt(text) => Fault::because(Code::JournalDamaged, text.clone()),
        StoreError::Io(text) => {
            Fault::because(Code::DataFolder, format!("The journal cannot be read: {text}"))
        }
        StoreError::Bug(text) => Fault::because(Code::InternalError, text.clone()),
    }
}
