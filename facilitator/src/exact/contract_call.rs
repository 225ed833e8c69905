//! A call that a facilitator sends or simulates.

use alloy_primitives::{Address, Bytes};

/// A call of a contract, without a sender and without coin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractCall {
    pub to: Address,
    pub data: Bytes,
}
