//! The single writer of all payments. Pending changes share a commit.
//!
//! The ledger also holds the locks that let one task at a time work on a payment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::store::{Change, Store, StoreError};
use super::{Digest, PaymentId, Record, Settlement, Stage, StoredAnswer};

/// Maximum number of pending commits that the store applies as one.
const COMMITS_PER_BATCH_MAX: usize = 256;
/// Maximum number of queued commits.
const QUEUED_COMMITS_MAX: usize = 8_192;

/// Access to all payments.
///
/// Clones share it.
#[derive(Debug, Clone)]
pub struct Ledger {
    store: Arc<dyn Store>,
    commits: mpsc::Sender<PendingCommit>,
    holders: Arc<Mutex<HashMap<PaymentId, Holder>>>,
    /// Payments whose settlement is pending, as stored.
    pending: Arc<Mutex<BTreeMap<PaymentId, Record>>>,
}

/// The task that holds a payment. Its channel closes when the task is done with the payment.
#[derive(Debug)]
struct Holder {
    body: Digest,
    done: watch::Sender<()>,
}

#[derive(Debug)]
struct PendingCommit {
    changes: Vec<Change>,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// Result of a claim.
#[derive(Debug)]
pub enum ClaimResult {
    /// The caller holds the payment until it drops the guard.
    Held(PaymentGuard),
    /// Another request with the same body holds the payment. Wait, then claim again.
    SameBody(watch::Receiver<()>),
    /// A request with another body holds the payment.
    OtherBody,
}

/// The exclusive right to work on a payment.
///
/// Dropping it releases the payment.
#[derive(Debug)]
pub struct PaymentGuard {
    id: PaymentId,
    holders: Arc<Mutex<HashMap<PaymentId, Holder>>>,
}

impl Drop for PaymentGuard {
    fn drop(&mut self) {
        lock(&self.holders).remove(&self.id);
    }
}

impl Ledger {
    /// Loads open payments and starts the writer.
    ///
    /// The writer ends and closes the store when the last ledger is dropped.
    ///
    /// Deletes payments that were taken but not answered: nothing was charged for them, and no task works on them
    /// now.
    ///
    /// # Errors
    /// The store failed.
    pub async fn load(store: Arc<dyn Store>, writer: &TaskTracker) -> Result<Self, StoreError> {
        let open = store.open().await?;
        let (taken, pending): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|record| record.stage == Stage::Taken);
        if !taken.is_empty() {
            let count = taken.len();
            tracing::warn!(
                count,
                "payments were received but not answered: nothing was charged for them"
            );
            let deletions = taken.iter().map(|record| Change::Delete(record.id)).collect();
            store.commit(deletions).await?;
        }
        let (commits, queue) = mpsc::channel(QUEUED_COMMITS_MAX);
        writer.spawn(write(Arc::clone(&store), queue));
        let pending = pending.into_iter().map(|record| (record.id, record)).collect();
        Ok(Self { store, commits, holders: Arc::default(), pending: Arc::new(Mutex::new(pending)) })
    }

    /// Claims the right to work on a payment.
    pub fn claim(&self, id: PaymentId, body: &Digest) -> ClaimResult {
        let mut holders = lock(&self.holders);
        match holders.get(&id) {
            Some(holder) if holder.body == *body => ClaimResult::SameBody(holder.done.subscribe()),
            Some(_other) => ClaimResult::OtherBody,
            None => {
                holders.insert(id, Holder { body: *body, done: watch::Sender::new(()) });
                ClaimResult::Held(PaymentGuard { id, holders: Arc::clone(&self.holders) })
            }
        }
    }

    /// Returns a stored record.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find(&self, id: PaymentId) -> Result<Option<Record>, StoreError> {
        self.store.get(id).await
    }

    /// Returns the stored answer of a payment.
    ///
    /// # Errors
    /// The store failed.
    pub async fn answer(&self, id: PaymentId) -> Result<Option<StoredAnswer>, StoreError> {
        self.store.answer(id).await
    }

    /// Stores a payment, with its answer if the answer is new.
    ///
    /// # Errors
    /// The store failed.
    pub async fn put(
        &self,
        record: &Record,
        answer: Option<StoredAnswer>,
    ) -> Result<(), StoreError> {
        self.commit(vec![Change::Put(Box::new(record.clone()), answer)]).await?;
        let mut pending = lock(&self.pending);
        if matches!(record.settlement, Settlement::Pending { .. }) {
            pending.insert(record.id, record.clone());
        } else {
            pending.remove(&record.id);
        }
        Ok(())
    }

    /// Deletes a payment and its answer.
    ///
    /// # Errors
    /// The store failed.
    pub async fn delete(&self, id: PaymentId) -> Result<(), StoreError> {
        self.commit(vec![Change::Delete(id)]).await
    }

    /// Returns the ids of payments whose settlement is pending.
    pub fn pending(&self) -> Vec<PaymentId> {
        lock(&self.pending).keys().copied().collect()
    }

    /// Returns the records of payments whose settlement is pending, as stored.
    pub fn pending_records(&self) -> Vec<Record> {
        lock(&self.pending).values().cloned().collect()
    }

    /// Number of payments that tasks work on now.
    pub fn held_count(&self) -> usize {
        lock(&self.holders).len()
    }

    /// Deletes up to `most` payments that are no longer needed, and returns their number.
    ///
    /// [`Record::is_deletable`] decides. Times are in milliseconds.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sweep(
        &self,
        now_ms: i64,
        retention_ms: i64,
        most: usize,
    ) -> Result<usize, StoreError> {
        let ids = self.store.deletable(now_ms, retention_ms, most).await?;
        if !ids.is_empty() {
            self.commit(ids.iter().copied().map(Change::Delete).collect()).await?;
        }
        Ok(ids.len())
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        let ended = || StoreError::Bug("the writer of the store has stopped".to_owned());
        let (done, answer) = oneshot::channel();
        self.commits.send(PendingCommit { changes, done }).await.map_err(|_gone| ended())?;
        answer.await.map_err(|_gone| ended())?
    }
}

async fn write(store: Arc<dyn Store>, mut queue: mpsc::Receiver<PendingCommit>) {
    while let Some(first) = queue.recv().await {
        let mut batch = vec![first];
        while batch.len() < COMMITS_PER_BATCH_MAX
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        let (changes, done): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|commit| (commit.changes, commit.done)).unzip();
        let outcome = store.commit(changes.into_iter().flatten().collect()).await;
        if let Err(fault) = &outcome {
            tracing::error!(%fault, "payments could not be stored");
        }
        for done in done {
            // A caller that has left does not need the result.
            let _gone = done.send(outcome.clone());
        }
    }
}

/// Locks a map. Callers hold the lock for a single operation.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
