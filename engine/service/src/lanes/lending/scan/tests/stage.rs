//! A follower and the saving of its results, driven by a test.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy_primitives::Address;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{Chain, Clock};
use bursar_core::time::Utc;
use tokio::sync::watch;

use super::SAFE_BLOCK;
use super::node::{Node, base, lending};
use crate::lanes::lending::scan::follow::Follower;
use crate::lanes::lending::scan::results::{Scan, ScanProgress};
use crate::lanes::lending::scan::save;
use crate::lanes::lending::scan::store::ScanStore;
use crate::lanes::lending::scan::wanted::ScanScope;
use crate::ports::Chains;

pub(super) fn owner(at: u8) -> Address {
    Address::with_last_byte(at)
}

pub(super) struct Stage {
    pub(super) node: Arc<Node>,
    pub(super) chains: Chains,
    pub(super) scan: Arc<Scan>,
    pub(super) store: Arc<CountingStore>,
    clock: Arc<ManualClock>,
    wanted: watch::Sender<ScanScope>,
    task: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// Memory that counts how often it is written.
#[derive(Debug, Default)]
pub(super) struct CountingStore {
    data: Mutex<Option<Vec<u8>>>,
    saves: AtomicUsize,
}

impl CountingStore {
    pub(super) fn put(&self, data: &[u8]) {
        *self.data.lock().unwrap() = Some(data.to_vec());
    }

    pub(super) fn saves(&self) -> usize {
        self.saves.load(Ordering::SeqCst)
    }
}

impl ScanStore for CountingStore {
    fn load(&self) -> std::io::Result<Option<Vec<u8>>> {
        Ok(self.data.lock().unwrap().clone())
    }

    fn save(&self, data: &[u8]) -> std::io::Result<()> {
        self.saves.fetch_add(1, Ordering::SeqCst);
        self.put(data);
        Ok(())
    }
}

fn scope_of(owners: &[Address]) -> ScanScope {
    let owners: BTreeSet<Address> = owners.iter().copied().collect();
    ScanScope { networks: [base().chain].into(), owners: Some(Arc::new(owners)) }
}

impl Stage {
    /// Creates the stage of a wallet with these addresses.
    pub(super) fn new(owners: &[Address]) -> Self {
        let stage = Self::without_wallet();
        stage.wanted.send_replace(scope_of(owners));
        stage
    }

    pub(super) fn without_wallet() -> Self {
        let node = Arc::new(Node::new(SAFE_BLOCK));
        let none = ScanScope { networks: [base().chain].into(), owners: None };
        Self {
            chains: [(base().chain, Arc::clone(&node) as Arc<dyn Chain>)].into_iter().collect(),
            node,
            scan: Arc::default(),
            store: Arc::default(),
            clock: Arc::new(ManualClock::new(Utc::from_seconds(1_800_000_000))),
            wanted: watch::Sender::new(none),
            task: None,
        }
    }

    pub(super) fn start(mut self) -> Self {
        let store = Arc::clone(&self.store) as Arc<dyn ScanStore>;
        save::load(&self.scan, &*store);
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let follower = Follower {
            scan: Arc::clone(&self.scan),
            network: base(),
            contracts: lending(),
            chains: self.chains.clone(),
            clock: Arc::clone(&clock),
            wanted: self.wanted.subscribe(),
        };
        let scan = Arc::clone(&self.scan);
        self.task = Some(Box::pin(async move {
            tokio::select! {
                () = follower.run() => {}
                () = save::save_changes(&scan, &store, &clock) => {}
            }
        }));
        self
    }

    /// Starts another engine from the saved results, as after the current engine was killed.
    pub(super) fn restart(&self) -> Self {
        self.node.forget_queries();
        let stage = Self {
            node: Arc::clone(&self.node),
            chains: self.chains.clone(),
            scan: Arc::default(),
            store: Arc::clone(&self.store),
            clock: Arc::new(ManualClock::new(Utc::from_seconds(1_900_000_000))),
            wanted: watch::Sender::new(self.wanted.borrow().clone()),
            task: None,
        };
        stage.start()
    }

    /// Runs the scan until it only waits for the clock.
    pub(super) async fn run_until_idle(&mut self) {
        let task = self.task.as_mut().unwrap();
        let mut asked = None;
        loop {
            for _turn in 0..50 {
                assert!(futures::poll!(task.as_mut()).is_pending(), "it runs until it is dropped");
                tokio::task::yield_now().await;
            }
            let now = (self.node.query_count(), self.node.safe_reads());
            if asked.replace(now) == Some(now) {
                return;
            }
        }
    }

    pub(super) async fn pass_s(&mut self, seconds: u64) {
        for _second in 0..seconds {
            self.clock.advance(1_000);
            self.run_until_idle().await;
        }
    }

    pub(super) fn set_owners(&self, owners: &[Address]) {
        self.wanted.send_replace(scope_of(owners));
    }

    pub(super) fn disable(&self) {
        self.wanted.send_modify(|wanted| wanted.networks.clear());
    }

    pub(super) fn progress(&self) -> ScanProgress {
        self.scan.progress(base().chain).unwrap()
    }
}
