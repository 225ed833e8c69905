//! Multicall3, byte for byte as on real networks. It has no constructor and no storage, so copying its code is
//! enough.

use alloy_primitives::{B256, Bytes, keccak256};
use serde::Deserialize;

use crate::error::DevnetError;

/// `kit/Multicall3.json`: the code, its hash, and their source.
const COPIED: &str = include_str!("../kit/Multicall3.json");

#[derive(Deserialize)]
struct Copied {
    keccak256: B256,
    runtime: Bytes,
}

/// Returns the deployed code.
pub(crate) fn runtime_code() -> Result<Bytes, DevnetError> {
    let copied: Copied = serde_json::from_str(COPIED)
        .map_err(|error| DevnetError::Contract(format!("kit/Multicall3.json: {error}")))?;
    let found = keccak256(&copied.runtime);
    if found == copied.keccak256 {
        return Ok(copied.runtime);
    }
    Err(DevnetError::Contract(format!("Multicall3 hashes to {found} and not {}", copied.keccak256)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;

    #[test]
    fn the_code_matches_the_real_networks() {
        let real = b256!("0xd5c15df687b16f2ff992fc8d767b4216323184a2bbc6ee2f9c398c318e770891");
        assert_eq!(keccak256(runtime_code().unwrap()), real);
    }
}
