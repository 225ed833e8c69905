//! Rows in a redb file: values in postcard, durable commits off the async threads, and errors by cause.

mod error;
mod file;

use redb::TableError;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::StoreError;
pub use self::file::{Options, Reply, RowFile, WorkError};

/// Encodes a value.
///
/// # Errors
/// The value cannot be encoded. None of our types fails.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(value).map_err(|error| StoreError::Bug(error.to_string()))
}

/// Decodes a value.
///
/// # Errors
/// The bytes do not encode such a value: the row is damaged.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Returns `None` for a table that was never written.
///
/// # Errors
/// The table cannot be opened.
pub fn existing<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
