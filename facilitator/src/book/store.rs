//! The store of payments. One test suite (`tests/book/conformance.rs`) covers every implementation.

use alloy_primitives::{B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_outbox::store::StoreReply;
use bursar_submit::SubmissionId;

use crate::book::batch::Batch;
use crate::book::record::{Record, RequestOrigin, State};
use crate::job_key::JobKey;

/// A change to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Accepts a payment. Rejected if its key belongs to an open or settled payment.
    Accepted(Box<Record>),
    /// Puts payments into a transaction. Rejected as a whole if one of them is no longer queued, or if its row now
    /// holds another payment with the same nonce. `digests` has one digest per payment, in order.
    Batched { batch: Batch, digests: Vec<B256> },
    /// Stores a payment that a transaction found on the chain settled, and watches that transaction. Rejected like
    /// `Accepted`.
    FoundOnChain { record: Box<Record>, batch: Batch },
    /// Watches a transaction that was found on the chain. Its payments are already settled.
    Watched(Batch),
    /// Moves a payment to another state. Rejected if it is not in the state `from`, or if its row now holds another
    /// payment with the same nonce and another digest.
    StateChanged { key: JobKey, digest: B256, from: State, state: State, attempts: u8 },
    /// `settlement_pending` is returned to this request. Ignored if the success was promised or returned to another
    /// request.
    PendingReturned { key: JobKey, origin: RequestOrigin },
    /// The success of a payment was written to the connection of this request.
    SuccessReturned { key: JobKey, origin: RequestOrigin, at: Utc },
    /// Sets the state and the attempts of a payment, regardless of its current state.
    OutcomeSet { key: JobKey, state: State, attempts: u8 },
    /// Queues a settled payment again after a reorganisation removed its block. Rejected if it is no longer settled.
    /// The record keeps whether its success was returned.
    Reopened(Box<Record>),
    /// Closes a transaction that needs no further work, and counts its cost against its callers.
    Closed { batch: SubmissionId, spent: Vec<GasSpent> },
}

/// The result of a conditional change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeResult {
    /// The change was not rejected. A change of an unknown payment stores nothing.
    Stored,
    /// The payment is stored as this record, which keeps some fields of the previous record if there was one.
    Merged(Box<Record>),
    /// The change was rejected because of this record.
    Conflict(Box<Record>),
}

impl ChangeResult {
    /// Whether the change was stored.
    pub fn is_stored(&self) -> bool {
        !matches!(self, Self::Conflict(_))
    }
}

impl Change {
    /// Whether the change can be rejected.
    ///
    /// Only a conditional change has a [`ChangeResult`].
    pub fn is_conditional(&self) -> bool {
        match self {
            Self::Accepted(_)
            | Self::FoundOnChain { .. }
            | Self::Batched { .. }
            | Self::StateChanged { .. }
            | Self::Reopened(_) => true,
            Self::Watched(_)
            | Self::PendingReturned { .. }
            | Self::SuccessReturned { .. }
            | Self::OutcomeSet { .. }
            | Self::Closed { .. } => false,
        }
    }
}

/// Gas that was paid for a caller on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GasSpent {
    pub chain: ChainId,
    /// Days since 1970, UTC.
    pub day: i64,
    pub caller: B256,
    pub wei: U256,
}

/// The work that a restart resumes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenWork {
    pub records: Vec<Record>,
    pub batches: Vec<Batch>,
}

/// Durable storage of payments.
///
/// A reply means that the change is on disk.
pub trait PaymentStore: Send + Sync + std::fmt::Debug {
    /// Stores all changes in one transaction, except conditional ones that are rejected. Returns the outcome of each
    /// conditional change, in order.
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, Vec<ChangeResult>>;

    /// Returns a payment, open or ended; `None` if it is unknown or [`PaymentStore::prune`] deleted it.
    fn get(&self, key: JobKey) -> StoreReply<'_, Option<Record>>;

    /// The open payments and transactions.
    fn open(&self) -> StoreReply<'_, OpenWork>;

    /// The payments of a batch, including ended ones.
    fn records_of_batch(&self, batch: Batch) -> StoreReply<'_, Vec<Record>>;

    /// The gas that was paid on a day, one row per network and caller.
    fn gas_spent_on(&self, day: i64) -> StoreReply<'_, Vec<GasSpent>>;

    /// Writes a row without meaning, to check that the disk accepts writes.
    fn probe(&self) -> StoreReply<'_, ()>;

    /// Deletes at most `most` payments that ended before `before`, and the gas of earlier days.
    ///
    /// Returns the number of deleted payments.
    fn prune(&self, before: Utc, most: usize) -> StoreReply<'_, usize>;
}
