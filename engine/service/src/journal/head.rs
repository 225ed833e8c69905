//! A position in the chain of entries.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
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

/// Reads a head in hex.
///
/// # Errors
/// `BAD_INPUT` if the text has not 64 hex digits.
pub fn parse_head(text: &str) -> Result<Hash, Fault> {
    let mut hash = Hash::default();
    hex::decode_to_slice(text, &mut hash)
        .map_err(|_bad| Fault::because(Code::BadInput, "A head must have 64 hex digits."))?;
    Ok(hash)
}
