//! The background scan finds the vaults that official factories have created for a network's stablecoin, and the venues
//! in which the wallet's addresses have positions.
//!
//! It reads both from events. Any contract can emit a deposit in our name, so only events of official vaults and of
//! Morpho Blue (the singleton) count. From an event the scan takes only the venue: shares and their worth are read from
//! the venue itself. The scan checks that each answer of a node matches its query.
//!
//! The scan never searches beyond the safe block, so a reorganisation cannot hide an event. It searches each block
//! once. It searches everything again only if a node has named a safe block that did not exist.
//!
//! No request waits for the scan; requests read its results so far.

mod file;
mod findings;
mod follow;
mod query;
mod results;
mod save;
mod searches;
mod store;
mod wanted;
mod width;

use std::sync::Arc;

use bursar_core::networks::NETWORKS;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::core::handle::Handle;
use crate::ports::Ports;
use follow::Follower;
use wanted::{ScanScope, follow_views};

pub use findings::ScanBound;
pub use query::ScanFault;
pub use results::{Scan, ScanProgress};
pub use store::{FileStore, MemoryStore, ScanStore};

/// The dependencies of the scan task.
#[derive(Debug)]
pub struct ScanTask {
    pub scan: Arc<Scan>,
    pub store: Arc<dyn ScanStore>,
    pub core: Handle,
    pub ports: Ports,
    pub stopping: CancellationToken,
}

/// Loads the results of earlier runs.
///
/// It blocks on the disk.
pub fn load(scan: &Scan, store: &dyn ScanStore) {
    save::load(scan, store);
}

/// Scans all wanted networks until the engine stops, and saves the results.
pub async fn run(task: ScanTask) {
    let ScanTask { scan, store, core, ports, stopping } = task;
    let (publish, wanted) = watch::channel(ScanScope::default());
    // cancel-safe: no await interrupts a change of the results, and a save that has begun ends on its own thread.
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        () = follow_views(core, publish) => {}
        () = save::save_changes(&scan, &store, &ports.clock) => {}
        () = scan_all(&scan, &ports, wanted) => {}
    }
    save::save_unsaved(&scan, &store).await;
}

async fn scan_all(scan: &Arc<Scan>, ports: &Ports, wanted: watch::Receiver<ScanScope>) {
    let followers = NETWORKS.iter().filter_map(|network| {
        let follower = Follower {
            scan: Arc::clone(scan),
            network,
            contracts: network.lending?,
            chains: ports.chains.clone(),
            clock: Arc::clone(&ports.clock),
            wanted: wanted.clone(),
        };
        Some(follower.run())
    });
    futures::future::join_all(followers).await;
}

#[cfg(test)]
mod tests;
