//! Where payments are kept.

use bursar_chain::ports::BoxFuture;

use super::{Answer, PaymentId, Record};

/// What is done to the store.
#[derive(Debug, Clone)]
pub enum Change {
    /// The payment as it is now, and what answers it, where that is new.
    Put(Box<Record>, Option<Answer>),
    Forget(PaymentId),
}

/// Why the store failed; nothing was changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreFault(pub String);

/// What the store is waited for.
pub type StoreReply<'a, T> = BoxFuture<'a, Result<T, StoreFault>>;

/// Keeps payments. Every method but [`Store::commit`] only reads.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// All of it or nothing, on disk when it is answered.
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, ()>;

    fn get(&self, id: PaymentId) -> StoreReply<'_, Option<Record>>;

    fn answer(&self, id: PaymentId) -> StoreReply<'_, Option<Answer>>;

    /// Payments that were under way, or whose money is.
    fn open(&self) -> StoreReply<'_, Vec<Record>>;

    /// Some of the payments that are over ([`Record::is_over`]), oldest first.
    fn over(&self, now_ms: i64, kept_ms: i64, most: usize) -> StoreReply<'_, Vec<PaymentId>>;
}
