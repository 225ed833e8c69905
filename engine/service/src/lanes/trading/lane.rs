//! What the measurements of the trading lane share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::simulate::Simulator;
use bursar_core::networks::ChainId;

use super::eth_price::EthPrice;
use crate::ports::Ports;

/// What measurements share: the price of ETH, and the simulation method of each chain.
#[derive(Debug)]
pub struct Trading {
    pub(super) ports: Ports,
    pub(super) eth_price: EthPrice,
    // A lock instead of an owning task: it is never held across an await.
    simulators: Mutex<BTreeMap<ChainId, Arc<Simulator>>>,
    executed: AtomicU64,
}

impl Trading {
    /// Creates the lane. Opens no connection.
    pub fn new(ports: &Ports) -> Self {
        let eth_price = EthPrice::new(ports.prices.clone(), Arc::clone(&ports.clock));
        Self {
            ports: ports.clone(),
            eth_price,
            simulators: Mutex::default(),
            executed: AtomicU64::new(0),
        }
    }

    /// Returns the number of trades that were executed since the engine started.
    pub fn executed(&self) -> u64 {
        self.executed.load(Ordering::Relaxed)
    }

    pub(super) fn count_executed(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn simulator(&self, chain: ChainId) -> Arc<Simulator> {
        let mut simulators = self.simulators.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(simulators.entry(chain).or_default())
    }
}
