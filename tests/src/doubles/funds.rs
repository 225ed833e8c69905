//! Test doubles of balance lookups.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::ports::{BlockTag, Chain, ChainReply, Receipt};
use tokio::sync::Semaphore;

/// A chain without Multicall3 on which every address has the same balances.
#[derive(Debug)]
pub struct FixedBalances {
    pub native: U256,
    /// Balance by token address; any other address has no contract.
    pub tokens: BTreeMap<Address, U256>,
    /// Number of lookups that began.
    pub lookups: AtomicUsize,
    /// Lookups need a permit from this gate to continue.
    pub gate: Semaphore,
}

impl FixedBalances {
    /// Creates a chain with these balances that never makes a lookup wait.
    pub fn new(native: u64, tokens: &[(Address, u64)]) -> Self {
        let tokens = tokens.iter().map(|(token, amount)| (*token, U256::from(*amount)));
        Self {
            native: U256::from(native),
            tokens: tokens.collect(),
            lookups: AtomicUsize::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

impl Chain for FixedBalances {
    fn call(&self, to: Address, _data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        Box::pin(async move {
            let Some(amount) = self.tokens.get(&to) else {
                // Lookups try Multicall3 first. This chain does not have it, so they read each balance separately.
                self.lookups.fetch_add(1, Ordering::SeqCst);
                let pass = self.gate.acquire().await.expect("never closed");
                pass.forget();
                return Ok(Bytes::new());
            };
            Ok(Bytes::copy_from_slice(&amount.to_be_bytes::<32>()))
        })
    }

    fn balance(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        Box::pin(async { Ok(self.native) })
    }

    fn code_at(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        Box::pin(async { Ok(Bytes::new()) })
    }

    fn receipt(&self, _hash: B256) -> ChainReply<'_, Option<Receipt>> {
        Box::pin(async { Ok(None) })
    }
}
