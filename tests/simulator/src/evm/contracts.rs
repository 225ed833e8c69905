//! The addresses of a network's contracts, and those of its pools and hooks.

use alloy_primitives::aliases::{I24, U24};
use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::SolValue;
use bursar_core::networks::{self, ChainId, Exchange, FeeModel, Network};

use super::abi;

/// The contracts of one network, from the table of networks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contracts {
    pub(crate) network: &'static Network,
    pub(crate) exchange: &'static Exchange,
}

/// The effect of a hook on a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookKind {
    /// Runs before a swap and changes nothing.
    Harmless,
    /// Takes the same share of every output, so a small quote shows no impact.
    Takes,
}

/// Returns the address of a hook. Its lowest bits are the hook's permissions.
pub(crate) fn hook(kind: HookKind) -> Address {
    let (first, rights) = match kind {
        HookKind::Harmless => (0x81, [0x00, 0x80]),
        HookKind::Takes => (0x82, [0x00, 0x44]),
    };
    let mut bytes = [first; 20];
    bytes[18..].copy_from_slice(&rights);
    Address::from(bytes)
}

impl Contracts {
    /// Returns the contracts of a network with an exchange.
    pub(crate) fn of(chain: ChainId) -> Self {
        let network = networks::by_chain(chain).expect("a network");
        Self { network, exchange: network.exchange.expect("an exchange") }
    }

    pub(crate) fn weth(&self) -> Address {
        self.exchange.wrapped_native
    }

    pub(crate) fn dollar(&self) -> Address {
        self.network.stablecoin.address
    }

    pub(super) fn charges_for_data(&self) -> bool {
        self.network.gas.model == FeeModel::OpStack
    }

    /// Returns the address of a v3 pool, whether it exists or not.
    pub(crate) fn pool3(&self, a: Address, b: Address, fee: u32) -> Address {
        let key = (a.min(b), a.max(b), U256::from(fee)).abi_encode();
        self.exchange.v3.factory.create2(keccak256(key), self.exchange.v3.pool_code_hash)
    }
}

/// Returns the key of a v4 pool.
pub(super) fn key4(a: Address, b: Address, fee: u32, spacing: i32, hooks: Address) -> abi::Key {
    abi::Key {
        currency0: a.min(b),
        currency1: a.max(b),
        fee: U24::from(fee),
        tickSpacing: I24::try_from(spacing).expect("a spacing"),
        hooks,
    }
}

/// Returns the id of a v4 pool.
pub(super) fn id4(key: &abi::Key) -> B256 {
    keccak256(key.abi_encode())
}
