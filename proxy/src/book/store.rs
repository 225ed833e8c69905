//! The storage interface for payments.

use bursar_chain::ports::BoxFuture;

use super::{PaymentId, Record, StoredAnswer};

/// A change to the store.
#[derive(Debug, Clone)]
pub enum Change {
    /// Inserts or replaces a record, with its answer if the answer is new. Deletes the answer if `answer_stored` is
    /// false.
    Put(Box<Record>, Option<StoredAnswer>),
    /// Deletes a payment and its answer.
    Delete(PaymentId),
}

pub use bursar_rows::StoreError;

/// The future result of a store operation.
pub type StoreReply<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Stores payments.
///
/// Every method except [`Store::commit`] is read-only.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Applies all changes or none. They are on disk when this completes.
    fn commit(&self, changes: Vec<Change>) -> StoreReply<'_, ()>;

    /// Returns a record.
    fn get(&self, id: PaymentId) -> StoreReply<'_, Option<Record>>;

    /// Returns the stored answer of a payment.
    fn answer(&self, id: PaymentId) -> StoreReply<'_, Option<StoredAnswer>>;

    /// Returns records that need work after a restart: taken but not answered, or with a pending settlement.
    fn open(&self) -> StoreReply<'_, Vec<Record>>;

    /// Returns up to `most` payments that are no longer needed, oldest first.
    ///
    /// [`Record::is_deletable`] decides. Times are in milliseconds.
    fn deletable(
        &self,
        now_ms: i64,
        retention_ms: i64,
        most: usize,
    ) -> StoreReply<'_, Vec<PaymentId>>;
}
