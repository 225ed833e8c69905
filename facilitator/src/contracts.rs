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

/// Returns made-up addresses on Base. Only the address of Multicall3 is real.
#[cfg(test)]
pub(crate) fn contracts() -> Contracts {
    let at = Address::repeat_byte;
    Contracts {
        chain: ChainId(8453),
        multicall3: bursar_core::networks::MULTICALL3,
        permit2: at(6),
        exact_permit2_proxy: at(7),
        upto_permit2_proxy: at(0x0a),
        prism: at(8),
        escrow: at(0x20),
        erc3009_collector: at(0x21),
        permit2_collector: at(0x22),
    }
}
