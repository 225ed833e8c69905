//! How services write rows into a redb file: values in postcard, faults in words.

use std::fmt::Display;

use redb::TableError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::StoreFault;

/// A value as it is kept.
///
/// # Errors
/// A value that cannot be written, as none of ours is.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreFault> {
    postcard::to_allocvec(value).map_err(failed)
}

/// A value that was kept.
///
/// # Errors
/// The bytes are none of that kind.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreFault> {
    postcard::from_bytes(bytes).map_err(failed)
}

/// What went wrong, in words.
pub fn failed(error: impl Display) -> StoreFault {
    StoreFault::Failed(error.to_string())
}

/// A table that nobody has written to yet is an empty one.
///
/// # Errors
/// It cannot be opened.
pub fn existing<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreFault> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}
