//! The journal: every change of the state, in order. Only this module writes records. A [`Slip`] needs the proof of
//! durability that a commit or a replay returns.
//!
//! Each entry contains the SHA-256 hash of the entry before. While the wallet is open and the journal is trusted, a
//! commit also writes a seal: an HMAC over the head, under a key that only the open wallet has. At unlock the last
//! seal must match the chain, and later entries must be changes that a locked wallet allows. An unlock may start at a
//! sealed snapshot; `audit verify` reads the whole chain and detects an edit of any entry.

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

pub use chain::{Committed, Journal, SealCheck, verify_chain};
pub(crate) use chain::{walk_chain, walk_chain_bytes};
pub(crate) use codec::{hash_entry, read_entry};
pub use error::{JournalError, read_fault};
pub use head::{Hash, Head, hash_hex, parse_head};
pub use memory::{FaultyStore, MemoryStore};
pub(crate) use page::{visit_after, visit_range};
pub(crate) use payees::{
    address_of_key, approved_price_key, host_and_parents, host_keys, host_of_key, price_keys,
    rows_equal, similar_keys,
};
pub use redb_store::{
    Checkpoints, RedbStore, check_closed_journal, create_owner_only, edition_of_history,
};
pub use slip::{SigningOrder, Slip, Subject, Terms};
pub use store::{
    Batch, Reader, Seal, Snapshot, Store, StoreError, Visit, VisitPayee, VisitRequest,
    decode_record,
};
