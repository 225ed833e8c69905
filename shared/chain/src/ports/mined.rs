//! Mined transactions and their events, as a node reports them.

use alloy_primitives::{Address, B256, Bytes, U256};

/// The outcome of a mined transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub tx_hash: B256,
    pub block_number: u64,
    pub block_hash: B256,
    pub status: TxStatus,
    /// The events, in the order in which they were emitted.
    pub logs: Vec<Log>,
    /// The fee that the sender paid; `None` if the node reports no valid amounts.
    pub paid_fee: Option<PaidFee>,
}

impl Receipt {
    /// Returns the total that the sender paid for the transaction, in wei, or `None` if it is unknown.
    pub fn fee(&self) -> Option<U256> {
        self.paid_fee.as_ref().and_then(PaidFee::total)
    }
}

/// The fee that the sender of a mined transaction paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaidFee {
    /// In units of gas.
    pub gas_used: u64,
    /// The price of a unit of gas, in wei.
    pub gas_price: U256,
    /// The fee for the data of the transaction, in wei, if the network charges it on top of the gas (OP stack).
    pub data_fee: U256,
}

impl PaidFee {
    /// Returns the total fee in wei; `None` on overflow.
    pub fn total(&self) -> Option<U256> {
        U256::from(self.gas_used).checked_mul(self.gas_price)?.checked_add(self.data_fee)
    }
}

/// A transaction's sender, target and input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    pub hash: B256,
    /// The sender.
    pub from: Address,
    /// The called address; `None` if the transaction creates a contract.
    pub to: Option<Address>,
    pub input: Bytes,
}

/// A mined transaction, with its sender and nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentNonce {
    pub hash: B256,
    pub from: Address,
    pub nonce: u64,
}

/// Whether a mined transaction succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxStatus {
    Succeeded,
    /// Mined and paid for, without any other effect.
    Reverted,
}

/// One event of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub address: Address,
    /// At most four.
    pub topics: Vec<B256>,
    pub data: Bytes,
}

/// A filter for events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    /// The first and last block of the range, both included.
    pub from_block: u64,
    pub to_block: u64,
    /// The contracts that emitted the event; an empty list matches any contract.
    pub addresses: Vec<Address>,
    /// The first topic, which is the hash of the event's signature; an empty list matches any event.
    pub events: Vec<B256>,
    /// The allowed values of the event's first indexed arguments, in order; an empty or missing list allows any value.
    pub indexed: Vec<Vec<B256>>,
}

impl LogFilter {
    /// Returns whether an event matches the filter.
    pub fn matches(&self, found: &FoundLog) -> bool {
        let mut topics = found.log.topics.iter();
        let first = topics.next();
        (self.from_block..=self.to_block).contains(&found.block_number)
            && (self.addresses.is_empty() || self.addresses.contains(&found.log.address))
            && (self.events.is_empty() || first.is_some_and(|topic| self.events.contains(topic)))
            && self.indexed.iter().all(|wanted| {
                let found = topics.next();
                wanted.is_empty() || found.is_some_and(|found| wanted.contains(found))
            })
    }
}

/// An event and its position on the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLog {
    pub log: Log,
    pub tx_hash: B256,
    pub block_number: u64,
    pub block_hash: B256,
    /// The event's index among all events of its block.
    pub index: u64,
}
