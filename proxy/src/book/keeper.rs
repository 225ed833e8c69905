//! Who works on a payment, and the one writer of all of them: what waits at the same time shares a commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use super::store::{Change, Store, StoreFault};
use super::{Answer, Digest, PaymentId, Record, Settlement, Stage};

/// Changes that share a commit.
const TOGETHER_MAX: usize = 256;
/// Changes that wait for one.
const WAITING_MAX: usize = 8_192;

/// All payments. Clones share them.
#[derive(Debug, Clone)]
pub struct Keeper {
    store: Arc<dyn Store>,
    commands: mpsc::Sender<Command>,
    held: Arc<Mutex<HashMap<PaymentId, Work>>>,
    /// Whose money is on its way.
    pending: Arc<Mutex<BTreeMap<PaymentId, Record>>>,
}

/// Somebody works on a payment. The channel closes when he is done.
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

/// What a request finds.
#[derive(Debug)]
pub enum Claim {
    /// Nobody works on the payment, and nobody else will until this is dropped.
    Mine(Held),
    /// Somebody does, for the same body. Wait, then claim again.
    Busy(watch::Receiver<()>),
    /// Somebody does, for another body.
    Other,
}

/// The right to work on a payment.
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
    /// Reads back what was under way, and starts the writer: it ends, and lets go of the store, when nobody has
    /// a keeper any more. What was only taken is forgotten: nothing was charged for it, and nobody
    /// works on it any more.
    ///
    /// # Errors
    /// The store's.
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

    /// Asks for the right to work on a payment.
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

    /// # Errors
    /// The store's.
    pub async fn find(&self, id: PaymentId) -> Result<Option<Record>, StoreFault> {
        self.store.get(id).await
    }

    /// # Errors
    /// The store's.
    pub async fn answer(&self, id: PaymentId) -> Result<Option<Answer>, StoreFault> {
        self.store.answer(id).await
    }

    /// Keeps a payment as it is now.
    ///
    /// # Errors
    /// The store's; then it is as it was.
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

    /// # Errors
    /// The store's.
    pub async fn forget(&self, id: PaymentId) -> Result<(), StoreFault> {
        self.commit(vec![Change::Forget(id)]).await
    }

    /// Payments whose money is on its way.
    pub fn pending(&self) -> Vec<PaymentId> {
        lock(&self.pending).keys().copied().collect()
    }

    /// The same as they are kept.
    pub fn all_pending(&self) -> Vec<Record> {
        lock(&self.pending).values().cloned().collect()
    }

    /// How many payments are worked on.
    pub fn busy(&self) -> usize {
        lock(&self.held).len()
    }

    /// Forgets some of what is over; answers how many that were.
    ///
    /// # Errors
    /// The store's.
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
            // Who does not wait any more finds it later.
            let _gone = done.send(outcome.clone());
        }
    }
}

/// Held for one look-up.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
