//! Runs the outboxes of a store: one task per outbox with open submissions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use alloy_primitives::B256;
use bursar_chain::failpoints::Failpoints;
use bursar_chain::follower::Follower;
use bursar_chain::ports::{BoxFuture, Chain, Clock};
use bursar_chain::tx_driver::{self, DriverContext, Host, Notice, PendingAction, SignOutcome};
use bursar_core::networks::Gas;
use bursar_core::time::Utc;
use bursar_submit::{
    Action, Call, Input, Outbox, OutboxKey, Outcome, Refusal, Rules, SubmissionId, resume, step,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::{Store, StoreFault, StoredOutbox};

/// Maximum number of attempts to commit while other processes commit first.
const CONFLICTS_MAX: usize = 8;

/// Signs for the accounts of outboxes.
pub trait Signer: Send + Sync + std::fmt::Debug {
    /// Signs a digest with the key of the outbox's signer.
    fn sign(&self, key: OutboxKey, digest: B256) -> BoxFuture<'_, SignOutcome>;
}

/// Why a submission was not accepted or cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitFault {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreFault),
}

/// The broadcasts of one submission's call by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Broadcasts {
    /// The hash that is being broadcast.
    pub in_progress: Option<B256>,
    /// A broadcast ended without an answer, so a node may receive the bytes later.
    pub ended_unclear: bool,
}

/// Dependencies of an outbox.
#[derive(Debug, Clone)]
pub struct OutboxDeps {
    pub store: Arc<dyn Store>,
    pub chain: Arc<dyn Chain>,
    pub signer: Arc<dyn Signer>,
    pub clock: Arc<dyn Clock>,
    pub gas: Gas,
    /// See [`Rules::window`].
    pub window: usize,
    /// Reads the chain's progress for all outboxes of the network.
    pub follower: Arc<Follower>,
    pub failpoints: Arc<dyn Failpoints>,
}

/// One outbox of a service, and the task that runs it.
#[derive(Debug)]
pub struct ServiceOutbox {
    host: Arc<ServiceHost>,
    context: DriverContext,
    /// Whether a task runs the outbox now.
    is_running: Mutex<bool>,
}

impl ServiceOutbox {
    /// Loads an outbox.
    ///
    /// [`ServiceOutbox::ensure_running`] resumes its open submissions.
    ///
    /// # Errors
    /// The store failed.
    pub async fn open(
        key: OutboxKey,
        deps: OutboxDeps,
        tasks: TaskTracker,
        stopping: CancellationToken,
    ) -> Result<Arc<Self>, StoreFault> {
        let rules = Rules::of(&deps.gas, deps.window);
        let stored = deps.store.load(key).await?;
        let context = DriverContext {
            key,
            gas: deps.gas,
            rules,
            clock: Arc::clone(&deps.clock),
            tasks,
            stopping,
            follower: Arc::clone(&deps.follower),
        };
        let host = ServiceHost {
            key,
            rules,
            deps,
            version: tokio::sync::Mutex::new(stored.version),
            broadcasts: watch::Sender::default(),
            finality_unknown: AtomicBool::new(false),
            outbox: watch::Sender::new(Arc::new(stored.outbox)),
        };
        Ok(Arc::new(Self { host: Arc::new(host), context, is_running: Mutex::new(false) }))
    }

    /// Accepts a submission, and returns once it is on disk.
    ///
    /// From then on a crash neither loses nor repeats its call. A repeated request with the same id opens no second
    /// submission, even after the first has ended. The call is not broadcast at or after `until`: see
    /// [`Submission::until`](bursar_submit::Submission::until).
    ///
    /// # Errors
    /// [`SubmitFault`]. [`StoreFault::Ended`] contains the outcome of an ended submission.
    pub async fn submit(
        self: &Arc<Self>,
        id: SubmissionId,
        call: Call,
        ceiling: u128,
        until: Option<Utc>,
    ) -> Result<(), SubmitFault> {
        self.host.persist(&Notice::Input(Input::Open { id, call, ceiling, until })).await?;
        self.ensure_running();
        Ok(())
    }

    /// Cancels a submission: its call should no longer be executed.
    ///
    /// # Errors
    /// [`SubmitFault`]: the call is already in a block, the submission is not open, or the store failed.
    pub async fn cancel(self: &Arc<Self>, id: SubmissionId) -> Result<(), SubmitFault> {
        self.host.persist(&Notice::Input(Input::Cancel { id })).await?;
        self.ensure_running();
        Ok(())
    }

    /// Returns the current outbox.
    pub fn outbox(&self) -> Arc<Outbox> {
        self.host.outbox()
    }

    /// Returns whether open submissions cannot end, because no node reports which transactions are final.
    pub fn is_finality_unknown(&self) -> bool {
        self.host.finality_unknown.load(Ordering::Relaxed) && !self.outbox().open.is_empty()
    }

    /// Returns whether the outbox sends no further submissions.
    ///
    /// This is so if the maximum number of submissions hold nonces and cannot end.
    pub fn is_stuck(&self) -> bool {
        self.is_finality_unknown() && self.outbox().held_nonces().len() >= self.host.rules.window
    }

    /// Returns the broadcasts of a submission's call.
    ///
    /// After a cancel no new broadcast starts.
    pub fn broadcasts(&self, id: SubmissionId) -> Broadcasts {
        self.host.broadcasts.borrow().get(&id).copied().unwrap_or_default()
    }

    /// Completes once no broadcast of a submission's call is in progress.
    ///
    /// Cancel-safe.
    pub async fn broadcasts_ended(&self, id: SubmissionId) {
        let mut broadcasts = self.host.broadcasts.subscribe();
        let over = |all: &BroadcastsById| all.get(&id).is_none_or(|one| one.in_progress.is_none());
        // The sender lives as long as the outbox.
        let _over = broadcasts.wait_for(over).await;
    }

    /// Completes once the current outbox differs from `known`.
    ///
    /// Cancel-safe.
    pub async fn changed_since(&self, known: &Arc<Outbox>) {
        self.host.changed_since(known).await;
    }

    /// Waits for the outcome of a submission.
    ///
    /// Cancel-safe.
    ///
    /// Returns `None` if the submission was never opened.
    ///
    /// # Errors
    /// The store failed.
    pub async fn outcome(&self, id: SubmissionId) -> Result<Option<Outcome>, StoreFault> {
        let mut outboxes = self.host.outbox.subscribe();
        loop {
            let open = outboxes.borrow_and_update().open.contains_key(&id);
            if !open {
                return self.host.deps.store.outcome(self.host.key, id).await;
            }
            if outboxes.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Starts the task that runs the outbox, unless it already runs or no submission is open.
    pub fn ensure_running(self: &Arc<Self>) {
        let mut running = self.lock_running();
        if *running || self.host.outbox().open.is_empty() {
            return;
        }
        *running = true;
        let this = Arc::clone(self);
        self.context.tasks.spawn(async move { this.serve().await });
    }

    async fn serve(self: Arc<Self>) {
        // The guard is dropped even on panic, so that the next submission starts the task again.
        let _guard = RunningGuard(Arc::clone(&self));
        let chain = Arc::clone(&self.host.deps.chain);
        let chain = move || Some(Arc::clone(&chain));
        tx_driver::serve(Arc::clone(&self.host), self.context.clone(), chain).await;
    }

    fn lock_running(&self) -> MutexGuard<'_, bool> {
        self.is_running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks that a task runs the outbox. Dropping it starts the task again if a submission arrived meanwhile.
struct RunningGuard(Arc<ServiceOutbox>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        *self.0.lock_running() = false;
        // A submission may have arrived while the task ended.
        let can_spawn = tokio::runtime::Handle::try_current().is_ok() && !std::thread::panicking();
        if can_spawn && !self.0.context.stopping.is_cancelled() {
            self.0.ensure_running();
        }
    }
}

/// Persists one outbox in a store.
#[derive(Debug)]
struct ServiceHost {
    key: OutboxKey,
    rules: Rules,
    deps: OutboxDeps,
    /// The version of the last known commit. The lock is held during a commit, so commits run one at a time.
    version: tokio::sync::Mutex<u64>,
    broadcasts: watch::Sender<BroadcastsById>,
    finality_unknown: AtomicBool,
    outbox: watch::Sender<Arc<Outbox>>,
}

type BroadcastsById = BTreeMap<SubmissionId, Broadcasts>;

impl ServiceHost {
    /// Decides which events follow from a notice, commits them and applies them.
    ///
    /// If another process committed first, this function loads the stored outbox and decides again.
    async fn persist(&self, notice: &Notice) -> Result<Vec<Action>, SubmitFault> {
        let mut version = self.version.lock().await;
        for _again in 0..CONFLICTS_MAX {
            let outbox = self.outbox();
            let at = self.deps.clock.utc();
            let decided = match notice {
                Notice::Resume => return Ok(resume(&outbox, &self.rules, at)),
                Notice::Input(input) => step(&outbox, &self.rules, at, input.clone())?,
            };
            if decided.events.is_empty() {
                return Ok(decided.actions);
            }
            self.deps.failpoints.pass("outbox.before commit");
            match self.deps.store.commit(self.key, *version, decided.events.clone()).await {
                Ok(next) => {
                    self.deps.failpoints.pass("outbox.after commit");
                    let mut outbox = (*outbox).clone();
                    for event in &decided.events {
                        bursar_submit::apply(&mut outbox, event);
                    }
                    *version = next;
                    self.outbox.send_replace(Arc::new(outbox));
                    return Ok(decided.actions);
                }
                Err(StoreFault::Conflict) => {
                    let StoredOutbox { outbox, version: newer } =
                        self.deps.store.load(self.key).await?;
                    *version = newer;
                    self.outbox.send_replace(Arc::new(outbox));
                }
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(StoreFault::Conflict.into())
    }
}

impl Host for ServiceHost {
    type SigningRight = B256;

    fn outbox(&self) -> Arc<Outbox> {
        Arc::clone(&self.outbox.borrow())
    }

    fn changed_since<'a>(&'a self, known: &'a Arc<Outbox>) -> BoxFuture<'a, ()> {
        let mut outboxes = self.outbox.subscribe();
        Box::pin(async move {
            while Arc::ptr_eq(&outboxes.borrow_and_update(), known) {
                if outboxes.changed().await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }

    fn handle(&self, notice: Notice) -> BoxFuture<'_, Vec<PendingAction<B256>>> {
        Box::pin(async move {
            let actions = self.persist(&notice).await.unwrap_or_else(|fault| {
                tracing::warn!(%fault, "an outbox could not record what happened to a transaction");
                Vec::new()
            });
            let work = actions.into_iter().map(|action| {
                let signing_right = match &action {
                    Action::Sign { digest, .. } => Some(*digest),
                    _no_signature => None,
                };
                PendingAction { action, signing_right }
            });
            work.collect()
        })
    }

    fn sending(&self, id: SubmissionId, hash: B256) {
        let outbox = self.outbox();
        if !outbox.open.get(&id).is_some_and(|one| one.is_call(hash)) {
            return;
        }
        self.broadcasts.send_modify(|all| {
            all.retain(|known, _broadcasts| outbox.open.contains_key(known));
            let broadcasts = all.entry(id).or_default();
            // An earlier broadcast that was dropped before it ended may still arrive.
            broadcasts.ended_unclear |= broadcasts.in_progress.is_some();
            broadcasts.in_progress = Some(hash);
        });
    }

    fn sent(&self, id: SubmissionId, hash: B256, clear: bool) {
        self.broadcasts.send_if_modified(|all| {
            let ended = |broadcasts: &&mut Broadcasts| broadcasts.in_progress == Some(hash);
            let Some(broadcasts) = all.get_mut(&id).filter(ended) else { return false };
            *broadcasts =
                Broadcasts { in_progress: None, ended_unclear: broadcasts.ended_unclear || !clear };
            true
        });
    }

    fn finality_unknown(&self, is_unknown: bool) {
        self.finality_unknown.store(is_unknown, Ordering::Relaxed);
    }

    fn hit(&self, point: &'static str) -> bool {
        self.deps.failpoints.pass(point);
        true
    }

    fn sign(&self, digest: B256) -> BoxFuture<'static, SignOutcome> {
        let (signer, key) = (Arc::clone(&self.deps.signer), self.key);
        Box::pin(async move { signer.sign(key, digest).await })
    }
}
