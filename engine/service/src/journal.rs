//! The journal: every change of the state, in order, each entry carrying the hash of the one before.
//! Only this module writes records, and only its commit yields the right to a signature.
//!
//! Entries are chained by SHA-256. While the wallet is open each commit also carries a seal: an HMAC over
//! the head under a key that only the open wallet has. At unlock the last seal must fit the chain, and
//! whatever follows it must be what may happen while locked. So neither a limit nor a record can be edited
//! on disk unnoticed.

mod chain;
mod codec;
mod error;
mod head;
mod memory;
mod page;
mod payees;
mod redb_store;
mod requests;
#[cfg(test)]
mod sample;
mod seal;
mod slip;
mod store;
mod tables;

pub(crate) use chain::walk_chain;
pub use chain::{Committed, Journal, verify_chain};
pub use error::JournalError;
pub use head::{Hash, Head, hash_hex};
pub use memory::{FaultyStore, MemoryStore};
pub(crate) use page::{page, rest};
pub(crate) use payees::rows_say;
pub use redb_store::{Carry, RedbStore, copy_owner_only, create_owner_only, look};
pub use slip::{Slip, Subject};
pub use store::{Batch, Reader, Seal, Snapshot, Store, StoreError, Visit, VisitPaid, VisitRequest};
