//! Asks the operator's node whether it knows a transaction. A facilitator's word that money is on its way counts only
//! with a transaction that a node knows.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_chain::ports::{Chain, Clock};
use bursar_core::networks::ChainId;

use crate::wait::within;

/// How long one look-up may take.
const LOOK_MS: u64 = 5_000;
/// How often a node is asked for a transaction that it does not know: one that was just broadcast to another node
/// takes a moment to arrive.
const TRIES: u32 = 3;
/// Between two tries.
const PAUSE_MS: u64 = 400;

/// The nodes, by network.
#[derive(Debug, Clone)]
pub struct Nodes {
    chains: HashMap<ChainId, Arc<dyn Chain>>,
    clock: Arc<dyn Clock>,
}

impl Nodes {
    pub fn new(chains: HashMap<ChainId, Arc<dyn Chain>>, clock: Arc<dyn Clock>) -> Self {
        Self { chains, clock }
    }

    /// The nodes of a network.
    pub fn of(&self, network: ChainId) -> Option<&dyn Chain> {
        self.chains.get(&network).map(|chain| &**chain)
    }

    /// Whether a node says, now, that it knows the transaction. Without a node, or without its answer, the
    /// transaction is not known.
    pub async fn know(&self, network: ChainId, hash: B256) -> bool {
        let Some(chain) = self.chains.get(&network) else { return false };
        for again in 0..TRIES {
            if again > 0 {
                let wake = self.clock.mono_ms().saturating_add(PAUSE_MS);
                self.clock.sleep_until(wake).await;
            }
            match within(&*self.clock, LOOK_MS, chain.has_heard_of(hash)).await {
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
