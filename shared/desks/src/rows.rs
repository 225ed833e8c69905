//! Rows of services in a redb file: values in postcard, errors as text.

use std::fmt::Display;

use redb::TableError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::StoreFault;

/// Encodes a value.
///
/// # Errors
/// The value cannot be encoded. None of our types fails.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreFault> {
    postcard::to_allocvec(value).map_err(failed)
}

/// Decodes a value.
///
/// # Errors
/// The bytes do not encode such a value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreFault> {
    postcard::from_bytes(bytes).map_err(failed)
}

/// Converts an error to [`StoreFault::Failed`].
pub fn failed(error: impl Display) -> StoreFault {
    StoreFault::Failed(error.to_string())
}

/// Returns `None` for a table that was never written.
///
/// # Errors
/// The table cannot be opened.
pub fn existing<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreFault> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
