//! Gas for the data of a transaction on Arbitrum Nitro, where only the network can compute it.

use alloy_primitives::{Address, Bytes};
use alloy_sol_types::{SolCall, sol};
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_core::networks::FeeModel;

use crate::settle::settler::Settler;
use crate::transaction::KILOBYTE_BYTES;

sol! {
    #[derive(Debug)]
    interface INodeInterface {
        function gasEstimateL1Component(address to, bool contractCreation, bytes data)
            external view returns (uint64 gasEstimateForL1, uint256 baseFee, uint256 l1BaseFeeEstimate);
    }
}

impl Settler {
    /// Gas for the data of a call, plus half of it as a reserve, because the price of data moves. It is 0 on networks
    /// that do not charge data as gas.
    ///
    /// # Errors
    /// No node answers, or an Arbitrum chain does not return an estimate.
    pub(super) async fn data_gas(&self, to: Address, data: Bytes) -> Result<u64, ChainFault> {
        if self.network.table_row().gas.model != FeeModel::Arbitrum {
            return Ok(0);
        }
        let call = INodeInterface::gasEstimateL1ComponentCall { to, contractCreation: false, data };
        let node_interface = Address::with_last_byte(0xc8);
        let answer =
            self.network.chain.call(node_interface, call.abi_encode().into(), BlockTag::Latest);
        let estimate = match answer.await {
            Ok(bytes) => {
                INodeInterface::gasEstimateL1ComponentCall::abi_decode_returns_validate(&bytes).ok()
            }
            Err(ChainFault::Reverted { .. } | ChainFault::Rejected { .. }) => None,
            Err(fault) => return Err(fault),
        };
        match estimate {
            Some(estimate) => Ok(with_half_extra(estimate.gasEstimateForL1)),
            None if self.has_arbitrum_system().await? => Err(ChainFault::Rejected {
                code: 0,
                message: "the node returned no estimate of the gas for transaction data".to_owned(),
            }),
            // A local chain stands in for the network and charges no gas for data.
            None => Ok(0),
        }
    }

    /// Gas for a [`KILOBYTE_BYTES`] of incompressible data. Returns the same errors as [`Settler::data_gas`].
    pub(super) async fn data_gas_per_kilobyte(&self) -> Result<u64, ChainFault> {
        self.data_gas(self.network.contracts.multicall3, incompressible_bytes(KILOBYTE_BYTES)).await
    }

    /// Whether the chain has ArbSys, a precompile of every Arbitrum chain.
    async fn has_arbitrum_system(&self) -> Result<bool, ChainFault> {
        let arb_sys = Address::with_last_byte(0x64);
        Ok(!self.network.chain.code_at(arb_sys, BlockTag::Latest).await?.is_empty())
    }
}

/// Adds half of the estimate, because the price of data moves.
fn with_half_extra(gas: u64) -> u64 {
    gas.saturating_add(gas / 2)
}

/// Incompressible bytes: hashes of a counter.
fn incompressible_bytes(bytes: usize) -> Bytes {
    let hashes = (0_u64..).flat_map(|n| alloy_primitives::keccak256(n.to_be_bytes()).0);
    hashes.take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_gas_has_a_reserve_of_half_and_saturates() {
        assert_eq!(with_half_extra(1_000), 1_500);
        assert_eq!(with_half_extra(1), 1);
        assert_eq!(with_half_extra(u64::MAX), u64::MAX);
    }

    #[test]
    fn incompressible_bytes_have_the_requested_length_and_no_repetition() {
        let bytes = incompressible_bytes(1_000);
        assert_eq!(bytes.len(), 1_000);
        assert!(bytes.chunks(32).collect::<std::collections::BTreeSet<_>>().len() == 32);
    }
}
