//! Where payments are kept. One suite (`tests/conformance.rs`) holds every implementation to this.

use alloy_primitives::{B256, U256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_desks::store::StoreReply;
use bursar_submit::SubmissionId;

use crate::book::{AskedBy, Batch, Record, State};
use crate::payment::PaymentKey;

/// Something to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A payment is taken on, unless one of its key is already, or was settled.
    Accepted(Box<Record>),
    /// Payments join a transaction. Rejected as a whole if one of them is no longer queued, or if its row now holds
    /// another payment with the same nonce: `digests` has one digest per payment, in order.
    Batched { batch: Batch, digests: Vec<B256> },
    /// A payment was found settled in a transaction of another sender, which is watched. Conditional as `Accepted`.
    Found { record: Box<Record>, batch: Batch },
    /// A transaction is watched that another sender brought. Its payments are settled already.
    Watched(Batch),
    /// A payment changes its state. Rejected if it is not in the state `from`, or if its row now holds another payment
    /// with the same nonce and another digest.
    Moved { key: PaymentKey, digest: B256, from: State, state: State, attempts: u8 },
    /// The success of a payment was written to the connection of this request.
    Answered { key: PaymentKey, by: AskedBy, at: Utc },
    /// What became of a payment.
    Judged { key: PaymentKey, state: State, attempts: u8 },
    /// A settled payment waits again: the chain took its block back. Unless it is not settled any longer. Whether
    /// its success was returned stays as it is.
    Reopened(Box<Record>),
    /// Nothing of this transaction is left to be found out. It cost its callers these sums.
    Closed { batch: SubmissionId, spent: Vec<Spent> },
}

/// What became of a conditional change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is on disk.
    Kept,
    /// It is on disk, as this record: parts of the record before it stay.
    KeptAs(Box<Record>),
    /// This record stands in its way.
    InTheWay(Box<Record>),
}

impl Outcome {
    pub fn is_kept(&self) -> bool {
        !matches!(self, Self::InTheWay(_))
    }
}

impl Change {
    /// Whether something may stand in its way: then it has an [`Outcome`].
    pub fn is_conditional(&self) -> bool {
        match self {
            Self::Accepted(_)
            | Self::Found { .. }
            | Self::Batched { .. }
            | Self::Moved { .. }
            | Self::Reopened(_) => true,
            Self::Watched(_)
            | Self::Answered { .. }
            | Self::Judged { .. }
            | Self::Closed { .. } => false,
        }
    }
}

/// Gas that was paid for a caller on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub chain: ChainId,
    /// Days since 1970, UTC.
    pub day: i64,
    pub caller: B256,
    pub wei: U256,
}

/// Everything that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open {
    pub records: Vec<Record>,
    pub batches: Vec<Batch>,
}

/// Durable payments. An answer is given once it is on disk.
pub trait Payments: Send + Sync + std::fmt::Debug {
    /// Keeps all of it or nothing. Returns what became of each conditional change, in their order: nothing is kept
    /// of a change that something stands in the way of.
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, Vec<Outcome>>;

    /// A payment, however long ago it ended.
    fn get(&self, key: PaymentKey) -> StoreReply<'_, Option<Record>>;

    /// What is to be gone on with.
    fn open(&self) -> StoreReply<'_, Open>;

    /// The payments of a batch, also those that have ended.
    fn of_batch(&self, batch: Batch) -> StoreReply<'_, Vec<Record>>;

    /// The gas that was paid on a day, a row for each network and caller.
    fn spent_on(&self, day: i64) -> StoreReply<'_, Vec<Spent>>;

    /// Writes something that means nothing: whether the disk takes it.
    fn probe(&self) -> StoreReply<'_, ()>;

    /// Forgets at most so many payments that ended before then, and the gas of days before; how many payments.
    fn prune(&self, before: Utc, most: usize) -> StoreReply<'_, usize>;
}
