//! Runs the wallet's outboxes: the core persists their events, and slips allow the signatures. Each outbox with an
//! open submission has one task; all outboxes of a network share one lookup of the newest block.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_chain::follower::Follower;
use bursar_chain::ports::BoxFuture;
use bursar_chain::tx_driver::{self, DriverContext, Host, IDLE_MS_MAX, Notice, SignOutcome};
use bursar_core::networks::{ChainId, by_chain};
use bursar_domain::{Action, outboxes};
use bursar_submit::{Outbox, OutboxKey};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::payments::Execution;
use crate::journal::SigningOrder;
use crate::ports::{Ports, SignFault};

/// The dependencies of the wallet's outboxes.
#[derive(Debug, Clone)]
pub struct TxDriver {
    pub execution: Execution,
    pub ports: Ports,
    pub stopping: CancellationToken,
}

/// Runs the outboxes until the engine stops.
pub async fn run(tx_driver: TxDriver) {
    let mut views = tx_driver.execution.core.watch();
    let mut outboxes: BTreeMap<OutboxKey, JoinHandle<()>> = BTreeMap::new();
    let mut followers: BTreeMap<ChainId, Arc<Follower>> = BTreeMap::new();
    loop {
        outboxes.retain(|_key, task| !task.is_finished());
        let view = Arc::clone(&views.borrow_and_update());
        for outbox in view.state.outboxes.with_open_submissions() {
            let by_person = view.state.is_on_device(outbox.key.signer);
            let (Some(row), Some(rules)) =
                (by_chain(outbox.key.chain), outboxes::rules(&outbox.key, by_person))
            else {
                continue;
            };
            let tasks = &tx_driver.execution.tasks;
            let follower = Arc::clone(followers.entry(row.chain).or_default());
            outboxes.entry(outbox.key).or_insert_with(|| {
                let context = DriverContext {
                    key: outbox.key,
                    gas: row.gas,
                    rules,
                    clock: Arc::clone(&tx_driver.ports.clock),
                    tasks: tasks.clone(),
                    stopping: tx_driver.stopping.clone(),
                    follower,
                };
                let host = Arc::new(WalletHost { tx_driver: tx_driver.clone(), key: outbox.key });
                let chains = tx_driver.ports.chains.clone();
                let chain = move || chains.get(&row.chain);
                tasks.spawn(tx_driver::serve(host, context, chain))
            });
        }
        // A task may end just as a new submission arrives. The timer bounds the wait until the task restarts.
        let wake = tx_driver.ports.clock.mono_ms().saturating_add(IDLE_MS_MAX);
        let idle = outboxes.is_empty();
        // cancel-safe: every branch only waits.
        tokio::select! {
            biased;
            () = tx_driver.stopping.cancelled() => return,
            changed = views.changed() => if changed.is_err() { return },
            () = tx_driver.ports.clock.sleep_until(wake), if !idle => {}
        }
    }
}

/// One outbox of the wallet.
struct WalletHost {
    tx_driver: TxDriver,
    key: OutboxKey,
}

impl Host for WalletHost {
    type SigningRight = SigningOrder;

    fn outbox(&self) -> Arc<Outbox> {
        self.tx_driver.execution.core.view().state.outboxes.get(&self.key)
    }

    /// Compares the outbox after each commit, because every commit publishes a view.
    fn changed_since<'a>(&'a self, known: &'a Arc<Outbox>) -> BoxFuture<'a, ()> {
        let mut views = self.tx_driver.execution.core.watch();
        Box::pin(async move {
            loop {
                let now = views.borrow_and_update().state.outboxes.get(&self.key);
                if !Arc::ptr_eq(&now, known) && now != *known {
                    return;
                }
                if views.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }

    fn handle(&self, notice: Notice) -> BoxFuture<'_, Vec<tx_driver::PendingAction<SigningOrder>>> {
        let action = match notice {
            Notice::Input(input) => Action::Outbox { key: self.key, input: Box::new(input) },
            Notice::Resume => Action::ResumeOutbox(self.key),
        };
        Box::pin(async move {
            match self.tx_driver.execution.core.act(action).await {
                Ok(outcome) => {
                    let work = outcome.work.into_iter();
                    work.map(|work| tx_driver::PendingAction {
                        action: work.action,
                        signing_right: work.order,
                    })
                    .collect()
                }
                Err(fault) => {
                    tracing::warn!(code = %fault.code, "an outbox could not record what happened to a transaction");
                    Vec::new()
                }
            }
        })
    }

    fn sign(&self, order: SigningOrder) -> BoxFuture<'static, SignOutcome> {
        let signer = Arc::clone(&self.tx_driver.execution.signer);
        Box::pin(async move {
            match signer.sign(order.slip, order.terms).await {
                Ok(signature) => SignOutcome::Signed(signature),
                // The wallet was locked or frozen meanwhile: the outbox retries when the wallet is open.
                Err(SignFault::Stale) => SignOutcome::NotNow,
                Err(refused @ (SignFault::NoKey | SignFault::Refused(_))) => {
                    tracing::warn!(%refused, "a transaction was not signed");
                    SignOutcome::Declined
                }
            }
        })
    }

    fn hit(&self, point: &'static str) -> bool {
        self.tx_driver.ports.failpoints.hit(point).is_ok()
    }
}
