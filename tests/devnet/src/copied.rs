//! Contracts whose deployed code is copied byte for byte from public packages. They need no constructor and no
//! storage, so placing the code is enough.

use alloy_primitives::{B256, Bytes, keccak256};
use serde::Deserialize;

use crate::error::DevnetError;

/// A contract in `kit/<name>.json`: the code, its hash, and their source.
#[derive(Debug)]
pub(crate) struct CopiedContract {
    name: &'static str,
    text: &'static str,
}

pub(crate) const MULTICALL3: CopiedContract =
    CopiedContract { name: "Multicall3", text: include_str!("../kit/Multicall3.json") };

/// Permit2, whose code contains the signing domain of Ethereum and computes the domain of every other chain.
pub(crate) const PERMIT2: CopiedContract =
    CopiedContract { name: "Permit2", text: include_str!("../kit/Permit2.json") };

#[derive(Deserialize)]
struct StoredContract {
    keccak256: B256,
    runtime: Bytes,
}

impl CopiedContract {
    /// Returns the deployed code.
    pub(crate) fn runtime_code(&self) -> Result<Bytes, DevnetError> {
        let name = self.name;
        let copied: StoredContract = serde_json::from_str(self.text)
            .map_err(|error| DevnetError::Contract(format!("kit/{name}.json: {error}")))?;
        let found = keccak256(&copied.runtime);
        if found == copied.keccak256 {
            return Ok(copied.runtime);
        }
        Err(DevnetError::Contract(format!("{name} hashes to {found} and not {}", copied.keccak256)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;

    #[test]
    fn the_code_matches_the_real_networks() {
        let multicall = b256!("0xd5c15df687b16f2ff992fc8d767b4216323184a2bbc6ee2f9c398c318e770891");
        let permit2 = b256!("0xa1ad0529565c25202190d4ae7f75d4ca08dc432cc760544ee7d0313b68e82ecd");
        for (contract, real) in [(MULTICALL3, multicall), (PERMIT2, permit2)] {
            assert_eq!(keccak256(contract.runtime_code().unwrap()), real, "{contract:?}");
        }
    }
}
