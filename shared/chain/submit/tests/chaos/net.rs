//! A chain and its node's mempool. Decodes the broadcast bytes independently of the code under test.

use std::collections::BTreeMap;

use alloy_consensus::transaction::RlpEcdsaDecodableTx;
use alloy_consensus::{TxEip1559, TxLegacy};
use alloy_primitives::{B256, U256, keccak256};
use bursar_submit::{FoundReceipt, SendAnswer};

#[derive(Debug, Clone)]
pub(crate) struct Tx {
    pub(crate) hash: B256,
    pub(crate) nonce: u64,
    /// Identifies the call: each test call moves a different value, and an empty transaction moves zero.
    pub(crate) value: U256,
    pub(crate) offer: u128,
}

impl Tx {
    pub(crate) fn read(raw: &[u8]) -> Self {
        let hash = keccak256(raw);
        if raw.first() == Some(&2) {
            let (tx, _signature) = TxEip1559::rlp_decode_with_signature(&mut &raw[1..]).unwrap();
            Self { hash, nonce: tx.nonce, value: tx.value, offer: tx.max_fee_per_gas }
        } else {
            let (tx, _signature) = TxLegacy::rlp_decode_with_signature(&mut &raw[..]).unwrap();
            Self { hash, nonce: tx.nonce, value: tx.value, offer: tx.gas_price }
        }
    }
}

#[derive(Debug, Default)]
struct Block {
    hash: B256,
    /// Transactions, and whether each succeeded.
    txs: Vec<(Tx, bool)>,
}

/// A chain as the signer sees it: only the signer's transactions count.
#[derive(Debug, Default)]
pub(crate) struct Net {
    blocks: Vec<Block>,
    /// Everything that was ever broadcast: a miner may still include it.
    pub(crate) ever_broadcast: BTreeMap<B256, Tx>,
    pool: BTreeMap<B256, Tx>,
    blocks_made: u64,
    /// The greatest height so far. Blocks that had three confirmations at that height are never removed.
    height_max: u64,
}

impl Net {
    /// Returns the number of the signer's mined transactions, which is its next nonce.
    pub(crate) fn count(&self) -> u64 {
        self.blocks.iter().map(|block| block.txs.len() as u64).sum()
    }

    /// Returns the number of the signer's transactions as of `depth` blocks below the newest.
    pub(crate) fn count_below(&self, depth: usize) -> u64 {
        let blocks = self.blocks.iter().rev().skip(depth);
        blocks.map(|block| block.txs.len() as u64).sum()
    }

    pub(crate) fn head(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(crate) fn pending(&self) -> u64 {
        let waits = |nonce| self.pool.values().any(|tx| tx.nonce == nonce);
        (self.count()..).find(|nonce| !waits(*nonce)).unwrap()
    }

    pub(crate) fn receive_broadcast(&mut self, raw: &[u8]) -> SendAnswer {
        let tx = Tx::read(raw);
        self.ever_broadcast.insert(tx.hash, tx.clone());
        if tx.nonce < self.count() {
            return SendAnswer::NonceTooLow;
        }
        if self.pool.contains_key(&tx.hash) {
            return SendAnswer::AlreadyKnown;
        }
        let same = self.pool.values().find(|other| other.nonce == tx.nonce).cloned();
        if let Some(same) = same {
            if tx.offer * 10 < same.offer * 11 {
                return SendAnswer::Underpriced;
            }
            self.pool.remove(&same.hash);
        }
        self.pool.insert(tx.hash, tx);
        SendAnswer::Accepted
    }

    pub(crate) fn drop_from_mempool(&mut self, hash: &B256) {
        self.pool.remove(hash);
    }

    pub(crate) fn mempool_hashes(&self) -> Vec<B256> {
        self.pool.keys().copied().collect()
    }

    pub(crate) fn knows(&self, hash: &B256) -> bool {
        self.pool.contains_key(hash) || self.found(hash).is_some()
    }

    pub(crate) fn found(&self, hash: &B256) -> Option<FoundReceipt> {
        self.blocks.iter().zip(1..).find_map(|(block, number)| {
            let (tx, ok) = block.txs.iter().find(|(tx, _ok)| tx.hash == *hash)?;
            Some(FoundReceipt { hash: tx.hash, block: number, block_hash: block.hash, ok: *ok })
        })
    }

    /// Mines a block of all transactions that fit, from the mempool or from everything ever broadcast.
    pub(crate) fn mine(&mut self, from_memory: bool, foreign: bool, ok: bool) {
        self.blocks_made += 1;
        let mut block = Block { hash: B256::from(U256::from(self.blocks_made)), txs: Vec::new() };
        let mut next = self.count();
        if foreign {
            let hash = keccak256(self.blocks_made.to_be_bytes());
            let value = U256::from(u128::MAX);
            block.txs.push((Tx { hash, nonce: next, value, offer: 0 }, true));
            next += 1;
        }
        let source = if from_memory { &self.ever_broadcast } else { &self.pool };
        while let Some(tx) = source.values().find(|tx| tx.nonce == next) {
            block.txs.push((tx.clone(), ok));
            next += 1;
        }
        self.blocks.push(block);
        self.height_max = self.height_max.max(self.head());
        self.pool.retain(|_hash, tx| tx.nonce >= next);
    }

    /// Removes the newest blocks; unless `forget` is set, their transactions return to the mempool.
    pub(crate) fn reorganise(&mut self, depth: usize, forget: bool) {
        for _block in 0..depth {
            if self.head() + 2 <= self.height_max {
                return;
            }
            let Some(gone) = self.blocks.pop() else { return };
            for (tx, _ok) in gone.txs {
                if !forget && self.ever_broadcast.contains_key(&tx.hash) {
                    self.pool.insert(tx.hash, tx);
                }
            }
        }
    }

    /// Returns, for each value, the mined transactions that moved it.
    pub(crate) fn effects(&self) -> BTreeMap<U256, Vec<B256>> {
        let mut effects: BTreeMap<U256, Vec<B256>> = BTreeMap::new();
        for (tx, _ok) in self.blocks.iter().flat_map(|block| &block.txs) {
            effects.entry(tx.value).or_default().push(tx.hash);
        }
        effects
    }
}
