//! Rows in a redb file: postcard values, durable commits, and errors classified by cause.
//!
//! # Examples
//!
//! ```
//! use bursar_rows::{Options, RowFile, StoreError, decode, encode, table_if_written};
//! use redb::TableDefinition;
//!
//! const VISITS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("visits");
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let options = Options { cache_bytes: 1 << 20, quick_repair: true };
//! let file = RowFile::open(&folder.path().join("visits.redb"), options)?;
//! // The row is on disk when this call returns. Services use `write`, which commits on a blocking thread.
//! file.write_here(|write| {
//!     write.open_table(VISITS)?.insert("alice", encode(&7_u32)?.as_slice())?;
//!     Ok::<(), StoreError>(())
//! })?;
//! let visits: Option<u32> = file.read_here(|read| {
//!     let Some(table) = table_if_written(read.open_table(VISITS))? else { return Ok(None) };
//!     table.get("alice")?.map(|row| decode(row.value())).transpose()
//! })?;
//! assert_eq!(visits, Some(7));
//! # Ok(())
//! # }
//! ```

mod error;
mod file;
mod unusable;

use redb::TableError;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::StoreError;
pub use self::file::{Options, Reply, RowFile, WorkError};
pub use self::unusable::StoreUnusable;

/// A part of the path of every source file of the store's library, as panic messages show it.
pub const LIBRARY: &str = "redb";

/// Encodes a value.
///
/// # Errors
/// The value cannot be encoded. This is a bug: all types of this workspace can be encoded.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_allocvec(value).map_err(|error| StoreError::Bug(error.to_string()))
}

/// Decodes a value.
///
/// # Errors
/// The bytes do not encode a `T`: the row is damaged.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    postcard::from_bytes(bytes).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// Returns `None` for a table that was never written.
///
/// # Errors
/// The table cannot be opened.
pub fn table_if_written<T>(table: Result<T, TableError>) -> Result<Option<T>, StoreError> {
    match table {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
