//! The storage interface for outboxes. One suite (`tests/conformance.rs`) tests every implementation.

use alloy_primitives::B256;
use bursar_chain::ports::BoxFuture;
use bursar_rows::{StoreError, WorkError};
use bursar_submit::{Event, Outbox, OutboxKey, Outcome, SubmissionId};

/// An outbox and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutbox {
    pub outbox: Outbox,
    /// Number of commits to this outbox; zero if it was never used.
    pub version: u64,
}

/// Why a commit or a read failed.
///
/// A commit that ended with [`StoreFault::Failed`] may have been stored. After any other fault nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreFault {
    /// Another process changed the outbox since it was loaded. Load it again.
    #[error("another process has changed this outbox")]
    Conflict,
    /// The submission has ended, so its id cannot begin again.
    #[error("this submission has ended")]
    Ended(Outcome),
    /// Another submission of the outbox holds this nonce, perhaps one that has ended.
    #[error("another submission holds nonce {0}")]
    NonceTaken(u64),
    /// The result of the commit is unknown. If it was stored after all, the next commit fails with
    /// [`StoreFault::Conflict`].
    #[error("the store failed: {0}")]
    Failed(#[from] StoreError),
}

impl WorkError for StoreFault {
    fn of_file(&self) -> Option<&StoreError> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Conflict | Self::Ended(_) | Self::NonceTaken(_) => None,
        }
    }
}

/// The future result of a store operation.
pub type StoreReply<'a, T> = BoxFuture<'a, Result<T, StoreFault>>;

/// Stores outboxes durably.
///
/// A commit is on disk when it completes.
pub trait Store: Send + Sync + std::fmt::Debug {
    /// Returns an outbox. It is empty if nothing was stored.
    fn load(&self, key: OutboxKey) -> StoreReply<'_, StoredOutbox>;

    /// Returns every outbox with an open submission.
    fn with_open_submissions(&self) -> StoreReply<'_, Vec<OutboxKey>>;

    /// Stores the events that follow version `after`, and returns the new version.
    ///
    /// It stores all events or none. Whatever the caller's state, only one submission at a time holds a nonce of a
    /// signer on a network, and a submission that has ended cannot begin again.
    fn commit(&self, key: OutboxKey, after: u64, events: Vec<Event>) -> StoreReply<'_, u64>;

    /// Returns the outcome of a submission, however long ago it ended.
    fn outcome(&self, key: OutboxKey, id: SubmissionId) -> StoreReply<'_, Option<Outcome>>;

    /// Returns whether this outbox ever signed the transaction with this hash.
    ///
    /// The sender's account does not prove that, because another program may have its key.
    fn has_signed(&self, key: OutboxKey, hash: B256) -> StoreReply<'_, bool>;

    /// Returns the highest nonce below `nonce` that a submission holds.
    ///
    /// A submission holds no nonce after it was dropped, or after another transaction used its nonce.
    fn nonce_before(&self, key: OutboxKey, nonce: u64) -> StoreReply<'_, Option<u64>>;
}

/// The changes that a commit makes to a store's other tables. Every store derives them in the same way.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TableChanges {
    pub(crate) reserved: Vec<(u64, SubmissionId)>,
    pub(crate) released: Vec<u64>,
    pub(crate) ended: Vec<(SubmissionId, Outcome)>,
    pub(crate) opened: Vec<SubmissionId>,
    pub(crate) signed: Vec<B256>,
}

/// Returns whether an open submission of an outbox has signed this transaction.
pub(crate) fn is_open_attempt(outbox: &Outbox, hash: B256) -> bool {
    let mut attempts = outbox.open.values().flat_map(|submission| &submission.attempts);
    attempts.any(|attempt| attempt.raw.as_ref().is_some_and(|raw| raw.hash == hash))
}

/// Applies events to an outbox, and returns the changes to the store's other tables.
pub(crate) fn apply_all(outbox: &mut Outbox, events: &[Event]) -> TableChanges {
    let mut changes = TableChanges::default();
    for event in events {
        match event {
            Event::Opened { id, .. } => changes.opened.push(*id),
            Event::Reserved { id, nonce } => changes.reserved.push((*nonce, *id)),
            Event::Signed { raw, .. } => changes.signed.push(raw.hash),
            Event::Finished { id, outcome } => {
                changes.ended.push((*id, *outcome));
                let nonce = outbox.open.get(id).and_then(|one| one.nonce);
                // A mined submission holds its nonce permanently. A dropped or displaced submission releases it.
                let free = matches!(outcome, Outcome::Dropped | Outcome::NonceTaken);
                changes.released.extend(nonce.filter(|_nonce| free));
            }
            _others => {}
        }
        bursar_submit::apply(outbox, event);
    }
    changes
}
