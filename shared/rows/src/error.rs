//! Why a store failed.

use std::io;

/// The failure of a store, classified by its remedy.
///
/// After a failed commit the state on disk is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full: free some space.
    #[error("{0}")]
    DiskFull(String),
    /// The file is damaged: restore a backup.
    #[error("{0}")]
    Corrupt(String),
    /// The system refused to read or write, or another process holds the file.
    #[error("{0}")]
    Io(String),
    /// A bug in this program.
    #[error("{0}")]
    Bug(String),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            // A file at the limit of file sizes (`ulimit -f`) counts as a full disk, too.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull(text),
            // redb reports a file of another format as invalid data. A folder in place of the file is damage, too.
            io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof
            | io::ErrorKind::IsADirectory => Self::Corrupt(text),
            _other => Self::Io(text),
        }
    }
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        use redb::Error;
        // The error text can contain names from a damaged file.
        let text = readable(&error.to_string());
        match error {
            Error::Io(error) => Self::with_text(error.into(), text),
            Error::PreviousIo | Error::DatabaseAlreadyOpen => Self::Io(text),
            Error::Corrupted(_)
            | Error::UpgradeRequired(_)
            | Error::RepairAborted
            | Error::TableTypeMismatch { .. }
            | Error::TypeDefinitionChanged { .. }
            | Error::TableIsMultimap(_)
            | Error::TableIsNotMultimap(_) => Self::Corrupt(text),
            _other => Self::Bug(text),
        }
    }
}

impl StoreError {
    /// Returns the same cause with another text.
    fn with_text(self, text: String) -> Self {
        match self {
            Self::DiskFull(_) => Self::DiskFull(text),
            Self::Corrupt(_) => Self::Corrupt(text),
            Self::Io(_) => Self::Io(text),
            Self::Bug(_) => Self::Bug(text),
        }
    }
}

/// Implements the conversion from each error type of redb.
macro_rules! of_redb {
    ($($error:ident)*) => {
        $(impl From<redb::$error> for StoreError {
            fn from(error: redb::$error) -> Self {
                redb::Error::from(error).into()
            }
        })*
    };
}

of_redb!(CommitError DatabaseError SetDurabilityError StorageError TableError TransactionError);

/// Escapes control characters, and cuts the text to a length that no message of redb itself exceeds.
fn readable(text: &str) -> String {
    let escaped = |one: char| -> String {
        if one.is_control() { one.escape_default().collect() } else { one.into() }
    };
    text.chars().take(500).map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_classified_by_their_cause() {
        let io = |kind| StoreError::from(io::Error::from(kind));
        assert!(matches!(io(io::ErrorKind::StorageFull), StoreError::DiskFull(_)));
        assert!(matches!(io(io::ErrorKind::PermissionDenied), StoreError::Io(_)));
        assert!(matches!(io(io::ErrorKind::InvalidData), StoreError::Corrupt(_)));
        let full = redb::StorageError::Io(io::ErrorKind::StorageFull.into());
        assert!(matches!(StoreError::from(full), StoreError::DiskFull(_)));
        let torn = redb::StorageError::Corrupted("a page".to_owned());
        assert!(matches!(StoreError::from(torn), StoreError::Corrupt(_)));
        let missing = redb::TableError::TableDoesNotExist("rows".to_owned());
        assert!(matches!(StoreError::from(missing), StoreError::Bug(_)));
    }
}
