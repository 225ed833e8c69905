//! Scans one network: searches range after range up to the safe block, then looks for new blocks.

use std::sync::Arc;

use bursar_chain::ports::{Chain, Clock};
use bursar_core::limits::{SCAN_INTERVAL_MS, SCAN_PAUSE_MS, SCAN_SEARCHES_BEFORE_PAUSE};
use bursar_core::networks::{Lending as Contracts, Network};
use tokio::sync::watch;

use super::findings::{BlockRange, Search};
use super::query::{self, ScanFault};
use super::results::{SaveUrgency, Scan};
use super::wanted::ScanScope;
use super::width::{Pause, Width};
use crate::ports::Chains;

/// The scan of one network. It makes one query at a time.
#[derive(Debug)]
pub(super) struct Follower {
    pub(super) scan: Arc<Scan>,
    pub(super) network: &'static Network,
    pub(super) contracts: &'static Contracts,
    pub(super) chains: Chains,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) wanted: watch::Receiver<ScanScope>,
}

/// The state of a follower between two searches.
#[derive(Debug)]
struct SearchState {
    width: Width,
    pause: Pause,
    /// True until the scan first reaches the safe block, and again after an address is added or the scan starts again.
    is_catching_up: bool,
    /// The number of searches since the safe block was last read.
    searches: u32,
}

/// The result of one search.
enum SearchOutcome {
    Searched,
    /// The scan has made [`SCAN_SEARCHES_BEFORE_PAUSE`] searches without a pause; it continues after a pause.
    NeedsPause,
    /// Everything up to the safe block is searched.
    Complete,
    Failed {
        fault: ScanFault,
        pause_ms: u64,
    },
}

impl Follower {
    /// Scans until the core stops.
    pub(super) async fn run(mut self) {
        let mut pace = SearchState {
            width: Width::default(),
            pause: Pause::default(),
            is_catching_up: true,
            searches: 0,
        };
        loop {
            let wake_ms = self.advance(&mut pace).await;
            // cancel-safe: both branches only wait.
            tokio::select! {
                biased;
                changed = self.wanted.changed() => if changed.is_err() { return },
                () = self.clock.sleep_until(wake_ms) => {}
            }
        }
    }

    /// Makes the next search, if there is one. Returns the monotonic time at which the following one is due, in
    /// milliseconds.
    async fn advance(&mut self, pace: &mut SearchState) -> u64 {
        let chain = self.network.chain;
        let Some(owners) = self.wanted.borrow_and_update().owners_on(chain) else {
            self.scan.deactivate(chain);
            return u64::MAX;
        };
        pace.is_catching_up |= self.scan.activate(chain, self.contracts, &owners);
        let outcome = self.search(pace).await;
        let now_ms = self.clock.mono_ms();
        match outcome {
            SearchOutcome::Searched => {
                self.scan.set_fault(chain, None);
                pace.pause = Pause::default();
                now_ms
            }
            SearchOutcome::NeedsPause => now_ms.saturating_add(SCAN_PAUSE_MS),
            SearchOutcome::Complete => {
                self.scan.set_fault(chain, None);
                pace.pause = Pause::default();
                if std::mem::take(&mut pace.is_catching_up) {
                    self.scan.raise_urgency(SaveUrgency::CaughtUp);
                }
                now_ms.saturating_add(SCAN_INTERVAL_MS)
            }
            SearchOutcome::Failed { fault, pause_ms } => {
                tracing::debug!(chain = %chain, %fault, pause_ms, "the scan for lending pauses");
                now_ms.saturating_add(pause_ms)
            }
        }
    }

    async fn search(&self, pace: &mut SearchState) -> SearchOutcome {
        let id = self.network.chain;
        let failed = |fault, pace: &mut SearchState| {
            self.scan.set_fault(id, Some(fault));
            SearchOutcome::Failed { fault, pause_ms: pace.pause.lengthen() }
        };
        let Some(chain) = self.chains.get(&id) else { return failed(ScanFault::NoNode, pace) };
        let width = pace.width.blocks();
        let next = || self.scan.next_search(id, width);
        let search = match next() {
            Some(search) if pace.searches < SCAN_SEARCHES_BEFORE_PAUSE => search,
            old => {
                let last = match query::last_block(&*chain, self.network).await {
                    Ok(last) => last,
                    Err(fault) => return failed(fault, pace),
                };
                pace.searches = 0;
                if self.scan.set_safe_block(id, self.contracts, last) {
                    tracing::warn!(chain = %id, last, "the scan for lending starts again");
                    pace.is_catching_up = true;
                }
                if old.is_some() {
                    return SearchOutcome::NeedsPause;
                }
                let Some(search) = next() else { return SearchOutcome::Complete };
                search
            }
        };
        pace.searches = pace.searches.saturating_add(1);
        let range = match &search {
            Search::Creations(range) | Search::Deposits(range, _) => *range,
        };
        match self.run_search(&*chain, &search).await {
            Ok(is_new) => {
                pace.width.widen(range.blocks());
                let moved = is_new || pace.is_catching_up;
                let unsaved = if moved { SaveUrgency::Progress } else { SaveUrgency::NewBlocks };
                self.scan.raise_urgency(unsaved);
                SearchOutcome::Searched
            }
            Err(fault) => self.narrow(fault, range, pace),
        }
    }

    /// Makes a search and records its results, if all its queries succeed. Returns whether something new was found.
    async fn run_search(&self, chain: &dyn Chain, search: &Search) -> Result<bool, ScanFault> {
        let id = self.network.chain;
        match search {
            Search::Creations(range) => {
                let found = query::creations(chain, self.network, self.contracts, *range).await?;
                Ok(self.scan.record_creations(id, *range, &found))
            }
            Search::Deposits(range, owners) => {
                let vaults: Vec<_> =
                    self.scan.known_vaults(id).into_iter().map(|(vault, _kind)| vault).collect();
                let found = query::deposits(chain, self.contracts, *range, owners, &vaults).await?;
                Ok(self.scan.record_deposits(id, *range, owners, &found))
            }
        }
    }

    /// Narrows the next range after a failure. A node is expected to refuse wide ranges, so such a refusal is not
    /// reported, and the pause stays short.
    fn narrow(&self, fault: ScanFault, range: BlockRange, pace: &mut SearchState) -> SearchOutcome {
        let was_wide = pace.width.narrow(range.blocks());
        let is_refusal = match fault {
            ScanFault::Refused | ScanFault::Invalid => true,
            // A node may also take too long for a wide range, but the cause is not certain: report the failure.
            ScanFault::Unavailable | ScanFault::NoNode => false,
        };
        if was_wide && is_refusal {
            return SearchOutcome::Failed { fault, pause_ms: SCAN_PAUSE_MS };
        }
        self.scan.set_fault(self.network.chain, Some(fault));
        SearchOutcome::Failed { fault, pause_ms: pace.pause.lengthen() }
    }
}
