//! Turns errors of redb into errors of the store.

use redb::TableError;

use crate::journal::store::StoreError;

/// Returns the table, or `None` if no commit has created it yet.
pub(super) fn existing<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Turns any error into one of the store.
pub(super) fn failed(error: impl std::fmt::Display) -> StoreError {
    StoreError(error.to_string())
}
