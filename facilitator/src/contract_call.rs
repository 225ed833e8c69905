//! A call that a facilitator sends or simulates.

use alloy_primitives::{Address, Bytes};

/// The target and calldata of a contract call.
///
/// The sender is stored elsewhere, and no native coin is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractCall {
    pub to: Address,
    pub data: Bytes,
}
