//! The single writer of all payments. Pending changes share a commit.
//!
//! It also holds the locks that let one task at a time work on a payment.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::store::{Change, Store, StoreFault};
use super::{Answer, Digest, PaymentId, Record, Settlement, Stage};

/// Maximum number of commands per commit.
const TOGETHER_MAX: usize = 256;
/// Capacity of the command queue.
const WAITING_MAX: usize = 8_192;

/// Access to all payments. Clones share it.
#[derive(Debug, Clone)]
pub struct Keeper {
    store: Arc<dyn Store>,
    commands: mpsc::Sender<Command>,
    held: Arc<Mutex<HashMap<PaymentId, Work>>>,
    /// Payments whose settlement is pending, as stored.
    pending: Arc<Mutex<BTreeMap<PaymentId, Record>>>,
}

/// A payment that a task works on. The channel closes when the task is done.
#[derive(Debug)]
struct Work {
    body: Digest,
    done: watch::Sender<()>,
}

#[derive(Debug)]
struct Command {
    changes: Vec<Change>,
    done: oneshot::Sender<Result<(), StoreFault>>,
}

/// Result of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The caller holds the payment until it drops the guard.
    Mine(Held),
    /// Another request with the same body holds it. Wait, then claim again.
    Busy(watch::Receiver<()>),
    /// A request with another body holds it.
    Other,
}

/// The exclusive right to work on a payment. Dropping it releases the payment.
#[derive(Debug)]
pub struct Held {
    id: PaymentId,
    held: Arc<Mutex<HashMap<PaymentId, Work>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.held).remove(&self.id);
    }
}

impl Keeper {
    /// Loads open payments and starts the writer. The writer ends and closes the store when the last keeper is
    /// dropped.
    ///
    /// Deletes payments that were taken but not answered: nothing was charged for them, and no task works on them
    /// now.
    ///
    /// # Errors
    /// The store failed.
    pub async fn load(store: Arc<dyn Store>, writer: &TaskTracker) -> Result<Self, StoreFault> {
        let open = store.open().await?;
        let (taken, pending): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|record| record.stage == Stage::Taken);
        if !taken.is_empty() {
            let count = taken.len();
            tracing::warn!(
                count,
                "payments were received but not answered: nothing was charged for them"
            );
            let forget = taken.iter().map(|record| Change::Forget(record.id)).collect();
            store.commit(forget).await?;
        }
        let (commands, waiting) = mpsc::channel(WAITING_MAX);
        writer.spawn(write(Arc::clone(&store), waiting));
        let pending = pending.into_iter().map(|record| (record.id, record)).collect();
        Ok(Self { store, commands, held: Arc::default(), pending: Arc::new(Mutex::new(pending)) })
    }

    /// Claims the right to work on a payment.
    pub fn claim(&self, id: PaymentId, body: &Digest) -> Claim {
        let mut held = lock(&self.held);
        match held.get(&id) {
            Some(work) if work.body == *body => Claim::Busy(work.done.subscribe()),
            Some(_other) => Claim::Other,
            None => {
                held.insert(id, Work { body: *body, done: watch::Sender::new(()) });
                Claim::Mine(Held { id, held: Arc::clone(&self.held) })
            }
        }
    }

    /// Returns a stored record.
    ///
    /// # Errors
    /// The store failed.
    pub async fn find(&self, id: PaymentId) -> Result<Option<Record>, StoreFault> {
        self.store.get(id).await
    }

    /// Returns the stored answer of a payment.
    ///
    /// # Errors
    /// The store failed.
    pub async fn answer(&self, id: PaymentId) -> Result<Option<Answer>, StoreFault> {
        self.store.answer(id).await
    }

    /// Stores a payment, with its answer if that is new.
    ///
    /// # Errors
    /// The store failed, and nothing was changed.
    pub async fn put(&self, record: &Record, answer: Option<Answer>) -> Result<(), StoreFault> {
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
    pub async fn forget(&self, id: PaymentId) -> Result<(), StoreFault> {
        self.commit(vec![Change::Forget(id)]).await
    }

    /// Returns the ids of payments whose settlement is pending.
    pub fn pending(&self) -> Vec<PaymentId> {
        lock(&self.pending).keys().copied().collect()
    }

    /// Returns the records of payments whose settlement is pending, as stored.
    pub fn all_pending(&self) -> Vec<Record> {
        lock(&self.pending).values().cloned().collect()
    }

    /// Number of payments that tasks work on now.
    pub fn busy(&self) -> usize {
        lock(&self.held).len()
    }

    /// Deletes up to `most` payments that are over and returns their number.
    ///
    /// [`Record::is_over`] decides. Times are in milliseconds.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sweep(&self, now_ms: i64, kept_ms: i64, most: usize) -> Result<usize, StoreFault> {
        let over = self.store.over(now_ms, kept_ms, most).await?;
        if !over.is_empty() {
            self.commit(over.iter().copied().map(Change::Forget).collect()).await?;
        }
        Ok(over.len())
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreFault> {
        let ended = || StoreFault("the writer has ended".to_owned());
        let (done, answer) = oneshot::channel();
        self.commands.send(Command { changes, done }).await.map_err(|_gone| ended())?;
        answer.await.map_err(|_gone| ended())?
    }
}

async fn write(store: Arc<dyn Store>, mut waiting: mpsc::Receiver<Command>) {
    while let Some(first) = waiting.recv().await {
        let mut together = vec![first];
        while together.len() < TOGETHER_MAX
            && let Ok(next) = waiting.try_recv()
        {
            together.push(next);
        }
        let (changes, done): (Vec<_>, Vec<_>) =
            together.into_iter().map(|command| (command.changes, command.done)).unzip();
        let outcome = store.commit(changes.into_iter().flatten().collect()).await;
        if let Err(fault) = &outcome {
            tracing::error!(%fault, "payments could not be stored");
        }
        for done in done {
            // A caller that left finds the change in the store.
            let _gone = done.send(outcome.clone());
        }
    }
}

/// Locks a map. Held for a single lookup.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
