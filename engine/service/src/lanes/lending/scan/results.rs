//! The results of the scan, shared between its task and the requests that read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use alloy_primitives::Address;
use bursar_core::networks::{ChainId, Lending as Contracts, VaultKind};
use bursar_morpho::VenueId;
use tokio::sync::watch;

use super::findings::{BlockRange, Deposit, Findings, ScanBound, Search};
use super::query::ScanFault;

/// The results of the scan; no method waits for the chain.
#[derive(Debug, Default)]
pub struct Scan {
    // A lock instead of an owning task: requests read the results without waiting for the scan. It is never held across
    // an await, and writers hold it only to add what one search has found.
    networks: RwLock<BTreeMap<ChainId, NetworkScan>>,
    urgency: watch::Sender<SaveUrgency>,
}

#[derive(Debug)]
struct NetworkScan {
    findings: Findings,
    /// The last block that may be searched, as read most recently.
    safe_block: Option<u64>,
    fault: Option<ScanFault>,
    /// Whether the wallet wants this network to be scanned.
    is_active: bool,
}

/// The progress of the scan of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanProgress {
    /// The first block that is not completely searched.
    pub next_block: u64,
    /// The newest block that a reorganisation is unlikely to remove.
    ///
    /// It is the result of the last read; `None` before the first one.
    pub safe_block: Option<u64>,
    /// Whether everything up to `safe_block` is searched and no finding was ignored.
    pub is_complete: bool,
    /// Why the scan pauses.
    pub fault: Option<ScanFault>,
    /// The bound beyond which findings were ignored; `None` if no finding was ignored.
    pub bound: Option<ScanBound>,
}

/// How urgent it is to save the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum SaveUrgency {
    #[default]
    Nothing,
    /// Only the cursors have moved, because there are new blocks.
    NewBlocks,
    /// A venue was found, or a long search is in progress.
    Progress,
    /// A long search has ended.
    CaughtUp,
}

impl Scan {
    /// Returns the vaults that the official factories of a network created for its stablecoin, the oldest first.
    ///
    /// The events of the factories name them; a factory must confirm a vault before it is used.
    pub fn known_vaults(&self, chain: ChainId) -> Vec<(Address, VaultKind)> {
        self.read(chain, |network| network.findings.vaults.clone()).unwrap_or_default()
    }

    /// Returns the venues in which an address of the wallet has, or had, a position.
    ///
    /// The address's own deposits come first. Shares that were sent to the address are not found.
    pub fn venues_of(&self, chain: ChainId, owner: Address) -> Vec<VenueId> {
        self.read(chain, |network| network.findings.venues_of(owner)).unwrap_or_default()
    }

    /// Returns the progress of the scan of a network; `None` if the network is not scanned.
    pub fn progress(&self, chain: ChainId) -> Option<ScanProgress> {
        self.read(chain, NetworkScan::progress).flatten()
    }

    /// Returns the vaults in which any address of the wallet has, or had, a position: first those of deposits that the
    /// addresses made themselves.
    pub(crate) fn vaults_with_positions(&self, chain: ChainId) -> Vec<Address> {
        self.read(chain, |network| {
            let owners = || network.findings.owners.values();
            let venues = owners()
                .flat_map(|one| &one.own_deposit_venues)
                .chain(owners().flat_map(|one| &one.others_deposit_venues));
            let vaults = venues.filter_map(|venue| match venue {
                VenueId::Vault(vault) => Some(*vault),
                VenueId::Market(_) => None,
            });
            vaults.collect()
        })
        .unwrap_or_default()
    }

    /// Starts or continues the scan of a network for some addresses. Returns whether one of them is new.
    pub(super) fn activate(
        &self,
        chain: ChainId,
        contracts: &Contracts,
        owners: &BTreeSet<Address>,
    ) -> bool {
        let mut networks = self.networks.write().unwrap_or_else(PoisonError::into_inner);
        let network =
            networks.entry(chain).or_insert_with(|| NetworkScan::of(Findings::new(contracts)));
        network.is_active = true;
        network.findings.set_owners(owners, contracts)
    }

    pub(super) fn deactivate(&self, chain: ChainId) {
        self.write(chain, |network| {
            network.is_active = false;
            network.fault = None;
        });
    }

    pub(super) fn next_search(&self, chain: ChainId, width: u64) -> Option<Search> {
        self.read(chain, |network| network.findings.next_search(network.safe_block?, width))
            .flatten()
    }

    /// Records the safe block. Returns whether everything is searched again, because a node had named a safe block that
    /// did not exist.
    pub(super) fn set_safe_block(
        &self,
        chain: ChainId,
        contracts: &Contracts,
        safe_block: u64,
    ) -> bool {
        let again = self.write(chain, |network| {
            network.safe_block = Some(safe_block);
            let again = network.findings.is_ahead_of(safe_block);
            if again {
                network.findings.search_again(contracts);
            }
            again
        });
        again.unwrap_or(false)
    }

    pub(super) fn set_fault(&self, chain: ChainId, fault: Option<ScanFault>) {
        self.write(chain, |network| network.fault = fault);
    }

    /// Records the vaults of a range. Returns whether there are any.
    pub(super) fn record_creations(
        &self,
        chain: ChainId,
        range: BlockRange,
        found: &[(Address, VaultKind)],
    ) -> bool {
        self.record(chain, |findings| {
            findings.record_creations(range, found);
            !found.is_empty()
        })
    }

    /// Records the deposits of a range. Returns whether a venue is new.
    pub(super) fn record_deposits(
        &self,
        chain: ChainId,
        range: BlockRange,
        owners: &[Address],
        found: &[Deposit],
    ) -> bool {
        self.record(chain, |findings| findings.record_deposits(range, owners, found))
    }

    fn record(&self, chain: ChainId, record: impl FnOnce(&mut Findings) -> bool) -> bool {
        let recorded = self.write(chain, |network| {
            let before = network.findings.bound();
            let is_new = record(&mut network.findings);
            let after = network.findings.bound().filter(|bound| Some(*bound) != before);
            (is_new, after)
        });
        let (is_new, reached) = recorded.unwrap_or_default();
        if let Some(bound) = reached {
            tracing::warn!(chain = %chain, %bound, "the scan for lending ignores what it finds");
        }
        is_new
    }

    /// Replaces all findings by those of a file.
    pub(super) fn restore(&self, findings: BTreeMap<ChainId, Findings>) {
        let restored = findings.into_iter().map(|(chain, found)| (chain, NetworkScan::of(found)));
        *self.networks.write().unwrap_or_else(PoisonError::into_inner) = restored.collect();
    }

    /// Returns a copy of all findings for saving, and marks them as saved.
    pub(super) fn copy_to_save(&self) -> BTreeMap<ChainId, Findings> {
        // Reset before the copy, so that a change during the copy is saved next time.
        self.urgency.send_replace(SaveUrgency::Nothing);
        let networks = self.networks.read().unwrap_or_else(PoisonError::into_inner);
        networks.iter().map(|(chain, network)| (*chain, network.findings.clone())).collect()
    }

    pub(super) fn raise_urgency(&self, unsaved: SaveUrgency) {
        self.urgency.send_if_modified(|before| {
            let is_more = unsaved > *before;
            *before = unsaved.max(*before);
            is_more
        });
    }

    pub(super) fn watch_urgency(&self) -> watch::Receiver<SaveUrgency> {
        self.urgency.subscribe()
    }

    fn read<T>(&self, chain: ChainId, read: impl FnOnce(&NetworkScan) -> T) -> Option<T> {
        self.networks.read().unwrap_or_else(PoisonError::into_inner).get(&chain).map(read)
    }

    fn write<T>(&self, chain: ChainId, write: impl FnOnce(&mut NetworkScan) -> T) -> Option<T> {
        let mut networks = self.networks.write().unwrap_or_else(PoisonError::into_inner);
        networks.get_mut(&chain).map(write)
    }
}

impl NetworkScan {
    fn of(findings: Findings) -> Self {
        Self { findings, safe_block: None, fault: None, is_active: false }
    }

    fn progress(&self) -> Option<ScanProgress> {
        let next_block = self.findings.next_block();
        let bound = self.findings.bound();
        let is_searched = self.safe_block.is_some_and(|safe_block| next_block > safe_block);
        self.is_active.then_some(ScanProgress {
            next_block,
            safe_block: self.safe_block,
            is_complete: is_searched && bound.is_none(),
            fault: self.fault,
            bound,
        })
    }
}

#[cfg(test)]
impl Scan {
    /// Pretends that the scan has found these vaults, and own deposits in some of them.
    pub(crate) fn set_test_findings(
        &self,
        chain: ChainId,
        contracts: &Contracts,
        known: &[Address],
        seen: &[Address],
    ) {
        use super::findings::Depositor;
        let owner = Address::with_last_byte(1);
        self.activate(chain, contracts, &[owner].into());
        let range = BlockRange { from: 0, to: 0 };
        let vaults: Vec<_> = known.iter().map(|vault| (*vault, VaultKind::V2)).collect();
        self.record_creations(chain, range, &vaults);
        let depositor = Depositor::Owner;
        let deposit = |vault: &Address| Deposit { owner, venue: VenueId::Vault(*vault), depositor };
        let deposits: Vec<_> = seen.iter().map(deposit).collect();
        self.record_deposits(chain, range, &[owner], &deposits);
    }
}
