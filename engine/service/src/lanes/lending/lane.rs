//! The state that the reads of the lending lane share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::Address;
use bursar_chain::ports::Chain;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::networks::{self, ChainId, Network};
use bursar_domain::Refusal;
use bursar_morpho::VenueId;
use bursar_submit::Outbox;

use super::hints::Hints;
use super::listing::Listing;
use super::measured::Measured;
use super::scan::Scan;
use crate::lanes::batch::chain_unavailable;
use crate::lanes::measurement_cache::MeasurementCache;
use crate::lanes::rehearsal::Simulators;
use crate::ports::Ports;

/// The lending lane.
#[derive(Debug)]
pub struct Lending {
    pub(super) ports: Ports,
    pub(super) hints: Hints,
    pub(super) simulators: Simulators,
    pub(super) measurements: MeasurementCache<Measured>,
    scan: Arc<Scan>,
    // The newest list of each network. A lock instead of an owning task: it is never held across an await.
    listings: Mutex<BTreeMap<ChainId, Arc<Listing>>>,
}

impl Lending {
    /// Creates the lane, without opening a connection.
    pub fn new(ports: &Ports) -> Self {
        Self {
            ports: ports.clone(),
            hints: Hints::default(),
            simulators: Simulators::default(),
            measurements: MeasurementCache::default(),
            scan: Arc::default(),
            listings: Mutex::default(),
        }
    }

    /// Keeps the measurement of a request or an approval for the first step of its plan.
    ///
    /// `outbox` is the state of the paying address's outbox before the measurement.
    pub fn cache_measurement(&self, id: RequestId, outbox: Arc<Outbox>, measured: Measured) {
        self.measurements.insert(id, outbox, measured);
    }

    /// Returns the curated venues of a network: those of our table, and those of the newest list.
    pub(super) fn curated_venues(&self, chain: ChainId) -> Vec<VenueId> {
        let contracts = networks::by_chain(chain).and_then(|network| network.lending);
        let pinned = contracts.map_or(&[][..], |contracts| contracts.pinned_vaults);
        let mut venues: Vec<VenueId> = pinned.iter().copied().map(VenueId::Vault).collect();
        venues.extend(self.cached_listing(chain).iter().flat_map(|listing| listing.venues()));
        venues
    }

    /// Returns the newest list of a network, however old.
    pub(super) fn cached_listing(&self, chain: ChainId) -> Option<Arc<Listing>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).get(&chain).cloned()
    }

    pub(super) fn cache_listing(&self, chain: ChainId, listing: Arc<Listing>) {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner).insert(chain, listing);
    }

    /// Returns what the background scan has found so far.
    pub fn scan(&self) -> &Arc<Scan> {
        &self.scan
    }

    /// Returns the venues of a network in which events show a position of an address.
    pub(super) fn venues_with_positions(&self, chain: ChainId, owner: Address) -> Vec<VenueId> {
        self.scan.venues_of(chain, owner)
    }

    pub(super) fn chain(&self, network: &Network) -> Result<Arc<dyn Chain>, Refusal> {
        let chain = self.ports.chains.get(&network.chain);
        chain.ok_or_else(|| Refusal::new(Code::ChainUnavailable))
    }

    /// Returns the network's node and its newest block, at which all reads of one answer are made.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn at_newest_block(
        &self,
        network: &Network,
    ) -> Result<(Arc<dyn Chain>, u64), Refusal> {
        let chain = self.chain(network)?;
        let block = chain.block_number().await.map_err(|_fault| chain_unavailable())?;
        Ok((chain, block))
    }
}
