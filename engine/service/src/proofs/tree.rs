//! The Merkle tree over the receipts of a journal (RFC 9162): one leaf for each request, in the order of the requests.

use std::collections::HashMap;

use bursar_core::ids::RequestId;
use ct_merkle::mem_backed_tree::MemoryBackedTree;
use sha2::{Digest, Sha256};

use crate::journal::Hash;

/// A leaf: the id of the request, and the chain of its entries.
type Leaf = [u8; 48];

/// Collects the entries of every request.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    places: HashMap<RequestId, usize>,
    chains: Vec<(RequestId, Hash)>,
}

impl Receipts {
    /// Adds an entry that the receipt of `request` rests on.
    pub(super) fn add(&mut self, request: RequestId, seq: u64, entry: &Hash) {
        let next = self.chains.len();
        let place = *self.places.entry(request).or_insert(next);
        if place == next {
            self.chains.push((request, Hash::default()));
        }
        if let Some((_request, chain)) = self.chains.get_mut(place) {
            *chain = extend(chain, seq, entry);
        }
    }

    /// Returns the number of a request's leaf.
    pub(super) fn place(&self, request: RequestId) -> Option<usize> {
        self.places.get(&request).copied()
    }

    /// Builds the tree.
    pub(super) fn tree(&self) -> MemoryBackedTree<Sha256, Leaf> {
        let mut tree = MemoryBackedTree::new();
        for (request, chain) in &self.chains {
            tree.push(leaf(*request, chain));
        }
        tree
    }
}

/// Adds an entry to the chain of a request's entries: SHA-256 over the chain so far, the entry's number in 8 bytes, and
/// the entry's hash.
fn extend(chain: &Hash, seq: u64, entry: &Hash) -> Hash {
    let mut hasher = Sha256::new();
    hasher.update(chain);
    hasher.update(seq.to_be_bytes());
    hasher.update(entry);
    hasher.finalize().into()
}

/// Returns the leaf of a request with these entries.
pub(super) fn leaf_of<'a>(
    request: RequestId,
    entries: impl Iterator<Item = (u64, &'a Hash)>,
) -> Leaf {
    let chain = entries.fold(Hash::default(), |chain, (seq, entry)| extend(&chain, seq, entry));
    leaf(request, &chain)
}

fn leaf(request: RequestId, chain: &Hash) -> Leaf {
    let mut leaf = [0; 48];
    let (id, rest) = leaf.split_at_mut(16);
    id.copy_from_slice(request.as_bytes());
    rest.copy_from_slice(chain);
    leaf
}
