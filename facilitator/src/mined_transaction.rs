//! A mined transaction, as proof of a settlement.

use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::SolCall;
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::Log;
use memchr::memmem;

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;

/// A mined transaction in which a payment may have been carried out.
#[derive(Debug, Clone, Copy)]
pub struct MinedTransaction<'a> {
    /// Whether one of our signers sent the transaction.
    ///
    /// Such a transaction does only what [`transaction`](crate::transaction) composes. Another sender's transaction
    /// may run any code.
    pub sent_by_us: bool,
    /// The contract that the transaction called.
    pub to: Option<Address>,
    pub input: &'a [u8],
    /// The events of the transaction, in order.
    pub logs: &'a [Log],
}

impl MinedTransaction<'_> {
    /// Whether the call data contains these words in sequence.
    pub(crate) fn input_contains(&self, words: &[B256]) -> bool {
        let wanted: Vec<u8> = words.iter().flatten().copied().collect();
        memmem::find(self.input, &wanted).is_some()
    }

    /// The calls of the transaction: the inner calls of a Multicall3 call, or else the outer call alone.
    pub(crate) fn calls(&self, contracts: &Contracts) -> Vec<ContractCall> {
        let Some(to) = self.to else { return Vec::new() };
        if to != contracts.multicall3 {
            return vec![ContractCall { to, data: Bytes::copy_from_slice(self.input) }];
        }
        let Ok(all) = IMulticall3::aggregate3Call::abi_decode_validate(self.input) else {
            return Vec::new();
        };
        let each = all.calls.into_iter();
        each.map(|call| ContractCall { to: call.target, data: call.callData }).collect()
    }
}
