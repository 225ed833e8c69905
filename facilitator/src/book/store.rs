//! Where payments are kept. One suite (`tests/conformance.rs`) holds every implementation to this.

use alloy_primitives::B256;
use bursar_core::time::Utc;
use bursar_desks::store::StoreReply;
use bursar_submit::SubmissionId;

use crate::book::{Batch, Record, State};
use crate::payment::PaymentKey;

/// Something to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A payment is taken on, unless one of its key is already, or was settled.
    Accepted(Box<Record>),
    /// Payments go into a transaction.
    Batched(Batch),
    /// What became of a payment.
    Judged { key: PaymentKey, state: State, attempts: u8 },
    /// A payment that had ended waits again: the chain took back what it had said.
    Reopened(Box<Record>),
    /// Nothing of this transaction is left to be found out.
    Closed { batch: SubmissionId },
}

/// Everything that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open {
    pub records: Vec<Record>,
    pub batches: Vec<Batch>,
}

/// Durable payments. An answer is given once it is on disk.
pub trait Payments: Send + Sync + std::fmt::Debug {
    /// Keeps all of it or nothing. For each payment that was to be taken on, in their order, the record that
    /// stands in its way, if one does: then nothing is kept of that one alone.
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, Vec<Option<Record>>>;

    /// A payment, however long ago it ended.
    fn get(&self, key: PaymentKey) -> StoreReply<'_, Option<Record>>;

    /// What is to be gone on with.
    fn open(&self) -> StoreReply<'_, Open>;

    /// The payments of a batch, also those that have ended.
    fn of_batch(&self, batch: Batch) -> StoreReply<'_, Vec<Record>>;

    /// The payments that were settled by a transaction.
    fn settled_by(&self, hash: B256) -> StoreReply<'_, Vec<Record>>;

    /// Forgets at most so many payments that ended before then; how many it were.
    fn prune(&self, before: Utc, most: usize) -> StoreReply<'_, usize>;
}
