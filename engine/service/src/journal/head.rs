//! A position in the chain of entries.

use serde::{Deserialize, Serialize};

/// SHA-256 of an entry's bytes.
pub type Hash = [u8; 32];

/// Returns the hash in lower-case hex.
pub fn hash_hex(hash: &Hash) -> String {
    hex::encode(hash)
}

/// The sequence number and hash of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// 0 in an empty journal.
    pub seq: u64,
    pub hash: Hash,
}
