//! Runs the wallet's outboxes: the core persists their events, and slips allow the signatures. Each outbox with an
//! open submission has one task; all outboxes of a network share one lookup of the newest block.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_chain::courier::{self, Host, IDLE_MS, SignEnd, Told, Way};
use bursar_chain::follower::Follower;
use bursar_chain::ports::BoxFuture;
use bursar_core::networks::{ChainId, by_chain};
use bursar_domain::{Action, desks};
use bursar_submit::{Desk, DeskKey};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::payments::Execution;
use crate::journal::Slip;
use crate::ports::{Ports, SignFault};

/// The dependencies of the wallet's outboxes.
#[derive(Debug, Clone)]
pub struct Courier {
    pub execution: Execution,
    pub ports: Ports,
    pub stopping: CancellationToken,
}

/// Runs the outboxes until the engine stops.
pub async fn run(courier: Courier) {
    let mut views = courier.execution.core.watch();
    let mut desks: BTreeMap<DeskKey, JoinHandle<()>> = BTreeMap::new();
    let mut followers: BTreeMap<ChainId, Arc<Follower>> = BTreeMap::new();
    loop {
        desks.retain(|_key, task| !task.is_finished());
        let view = Arc::clone(&views.borrow_and_update());
        for desk in view.state.desks.busy() {
            let (Some(row), Some(rules)) = (by_chain(desk.key.chain), desks::rules(&desk.key))
            else {
                continue;
            };
            let tasks = &courier.execution.tasks;
            let follower = Arc::clone(followers.entry(row.chain).or_default());
            desks.entry(desk.key).or_insert_with(|| {
                let way = Way {
                    key: desk.key,
                    gas: row.gas,
                    rules,
                    clock: Arc::clone(&courier.ports.clock),
                    tasks: tasks.clone(),
                    stopping: courier.stopping.clone(),
                    follower,
                };
                let host = Arc::new(WalletHost { courier: courier.clone(), key: desk.key });
                let chains = courier.ports.chains.clone();
                let chain = move || chains.get(&row.chain);
                tasks.spawn(courier::serve(host, way, chain))
            });
        }
        // A task may end just as a new submission arrives. This bounds the wait until it is started again.
        let wake = courier.ports.clock.mono_ms().saturating_add(IDLE_MS);
        let idle = desks.is_empty();
        // cancel-safe: all of it only waits.
        tokio::select! {
            () = courier.stopping.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            () = courier.ports.clock.sleep_until(wake), if !idle => {}
        }
    }
}

/// One outbox of the wallet.
struct WalletHost {
    courier: Courier,
    key: DeskKey,
}

impl Host for WalletHost {
    type Leave = Slip;

    fn desk(&self) -> Arc<Desk> {
        self.courier.execution.core.view().state.desks.get(&self.key)
    }

    /// Compares the outbox after each commit, because every commit publishes a view.
    fn another<'a>(&'a self, than: &'a Arc<Desk>) -> BoxFuture<'a, ()> {
        let mut views = self.courier.execution.core.watch();
        Box::pin(async move {
            loop {
                let now = views.borrow_and_update().state.desks.get(&self.key);
                if now != *than {
                    return;
                }
                if views.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }

    fn tell(&self, told: Told) -> BoxFuture<'_, Vec<courier::Work<Slip>>> {
        let action = match told {
            Told::Happened(input) => Action::Desk { key: self.key, input: Box::new(input) },
            Told::Resume => Action::ResumeDesk(self.key),
        };
        Box::pin(async move {
            match self.courier.execution.core.act(action).await {
                Ok(outcome) => {
                    let work = outcome.work.into_iter();
                    work.map(|work| courier::Work { action: work.action, leave: work.slip })
                        .collect()
                }
                Err(fault) => {
                    tracing::warn!(code = %fault.code, "a desk was not told");
                    Vec::new()
                }
            }
        })
    }

    fn sign(&self, leave: Slip) -> BoxFuture<'static, SignEnd> {
        let signer = Arc::clone(&self.courier.execution.signer);
        Box::pin(async move {
            match signer.sign(leave).await {
                Ok(signature) => SignEnd::Signed(signature),
                // Locked or frozen meanwhile: the outbox retries when the wallet is open.
                Err(SignFault::Stale) => SignEnd::NotNow,
                Err(refused @ (SignFault::NoKey | SignFault::Refused(_))) => {
                    tracing::warn!(%refused, "a transaction was not signed");
                    SignEnd::Declined
                }
            }
        })
    }

    fn hit(&self, point: &'static str) -> bool {
        self.courier.ports.failpoints.hit(point).is_ok()
    }
}
