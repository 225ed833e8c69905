//! The state that the measurements of the trading lane share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::ports::Chain;
use bursar_chain::simulate::Simulator;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::networks::{ChainId, Exchange, Network};
use bursar_domain::plan::Execution;
use bursar_domain::trades::TradeAsk;
use bursar_domain::{Refusal, Request};
use bursar_submit::Outbox;

use super::eth_price::EthPrice;
use super::measured::{Measured, PriorCommitments};
use super::wiring::Wiring;
use crate::lanes::measurement_cache::MeasurementCache;
use crate::lanes::rehearsal::Simulators;
use crate::ports::Ports;

/// The trading lane, with the caches that its measurements share.
#[derive(Debug)]
pub struct Trading {
    pub(super) ports: Ports,
    pub(super) eth_price: EthPrice,
    simulators: Simulators,
    // The chains whose contracts matched our table. A lock instead of an owning task: it is never held across an
    // await.
    verified_chains: Mutex<BTreeSet<ChainId>>,
    measurements: MeasurementCache<Measured>,
}

impl Trading {
    /// Creates the lane, without opening a connection.
    pub fn new(ports: &Ports) -> Self {
        let eth_price = EthPrice::new(ports.prices.clone(), Arc::clone(&ports.clock));
        Self {
            ports: ports.clone(),
            eth_price,
            simulators: Simulators::default(),
            verified_chains: Mutex::default(),
            measurements: MeasurementCache::default(),
        }
    }

    /// Keeps the measurement of a request or an approval for the first step of its plan.
    ///
    /// `outbox` is the state of the paying address's outbox before the measurement.
    pub fn cache_measurement(&self, id: RequestId, outbox: Arc<Outbox>, measured: Measured) {
        self.measurements.insert(id, outbox, measured);
    }

    /// Returns the measurement for the next step of a plan: the cached one if it is still valid, otherwise a new one.
    ///
    /// # Errors
    /// Those of [`Trading::propose`].
    pub(super) async fn measure_next(
        &self,
        request: &Request,
        ask: &TradeAsk,
        execution: &Execution,
        outbox: &Outbox,
        by_device: bool,
    ) -> Result<Measured, Refusal> {
        let now_ms = self.ports.clock.now().age_clock_ms();
        if let Some(measured) = self.measurements.take(request.id, execution, outbox, now_ms) {
            return Ok(measured);
        }
        let committed =
            PriorCommitments { floor: execution.floor, execution: Some(execution), by_device };
        self.measure(ask, request.from, committed).await
    }

    /// Returns whether the contracts of an exchange are as expected. Once all of them are as expected, they are not
    /// queried again.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn wiring(
        &self,
        chain: &dyn Chain,
        network: &Network,
        exchange: &Exchange,
    ) -> Result<Wiring, Refusal> {
        let known = |sound: &Mutex<BTreeSet<ChainId>>| {
            sound.lock().unwrap_or_else(PoisonError::into_inner).contains(&network.chain)
        };
        if known(&self.verified_chains) {
            return Ok(Wiring::SOUND);
        }
        let read = Wiring::read(chain, network, exchange).await;
        let wiring = read.map_err(|_fault| Refusal::new(Code::ChainUnavailable))?;
        if wiring.is_sound() {
            self.verified_chains
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(network.chain);
        } else {
            tracing::warn!(network = network.title, ?wiring, "contracts are not as expected");
        }
        Ok(wiring)
    }

    pub(super) fn simulator(&self, chain: ChainId) -> Arc<Simulator> {
        self.simulators.of(chain)
    }
}
