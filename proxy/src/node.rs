//! Asks the configured nodes in order whether they know a transaction. A settlement that the facilitator reports as
//! pending counts only if a node knows its transaction.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_chain::ports::{Chain, Clock};
use bursar_core::networks::ChainId;
use bursar_serve::wait::with_timeout;

/// Timeout of one lookup.
const LOOKUP_TIMEOUT_MS: u64 = 5_000;
/// Number of lookups before a transaction counts as unknown. A transaction that was just broadcast through another
/// node takes a moment to arrive.
const LOOKUP_TRIES: u32 = 3;
/// Pause between two lookups.
const LOOKUP_PAUSE_MS: u64 = 400;

/// The nodes of each network.
#[derive(Debug, Clone)]
pub struct Nodes {
    chains: HashMap<ChainId, Arc<dyn Chain>>,
    clock: Arc<dyn Clock>,
}

impl Nodes {
    /// Creates the set from one chain client per network.
    pub fn new(chains: HashMap<ChainId, Arc<dyn Chain>>, clock: Arc<dyn Clock>) -> Self {
        Self { chains, clock }
    }

    /// Returns the nodes of a network, or `None` if it has none.
    pub fn of(&self, network: ChainId) -> Option<&dyn Chain> {
        self.chains.get(&network).map(|chain| &**chain)
    }

    /// Returns whether a node knows the transaction now.
    ///
    /// If no node answers, the transaction counts as unknown.
    pub async fn knows_transaction(&self, network: ChainId, hash: B256) -> bool {
        let Some(chain) = self.chains.get(&network) else { return false };
        for again in 0..LOOKUP_TRIES {
            if again > 0 {
                let wake = self.clock.mono_ms().saturating_add(LOOKUP_PAUSE_MS);
                self.clock.sleep_until(wake).await;
            }
            match with_timeout(&*self.clock, LOOKUP_TIMEOUT_MS, chain.is_known_anywhere(hash)).await
            {
                Some(Ok(true)) => return true,
                Some(Ok(false)) => {}
                Some(Err(fault)) => {
                    tracing::warn!(%fault, "no node reported whether it knows a settlement");
                    return false;
                }
                None => {
                    tracing::warn!("no node reported in time whether it knows a settlement");
                    return false;
                }
            }
        }
        tracing::warn!(%hash, "the facilitator names a transaction that no node knows");
        false
    }
}
