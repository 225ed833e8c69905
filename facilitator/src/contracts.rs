//! The contracts of a network that payments use.

use alloy_primitives::Address;
use bursar_core::networks::ChainId;

/// The contract addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contracts {
    pub chain: ChainId,
    pub multicall3: Address,
    pub permit2: Address,
    pub exact_permit2_proxy: Address,
    pub upto_permit2_proxy: Address,
    pub prism: Address,
    /// The escrow of payment channels.
    pub escrow: Address,
    /// The collector of deposits by EIP-3009.
    pub erc3009_collector: Address,
    /// The collector of deposits by Permit2.
    pub permit2_collector: Address,
}
