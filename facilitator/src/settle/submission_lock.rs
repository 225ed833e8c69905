//! Locks of the transactions in flight. A transaction is submitted or withdrawn only under its lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, B256};
use bursar_submit::SubmissionId;

/// The lock of one transaction, which is held while the transaction is submitted or withdrawn.
#[derive(Debug)]
pub(super) struct SubmissionLock {
    pub(super) signer: Address,
    pub(super) answers: tokio::sync::Mutex<NodeAnswers>,
}

/// The nodes' answers about a transaction. They are cached, because all its payments may be due at once.
#[derive(Debug, Default)]
pub(super) struct NodeAnswers {
    /// The last answer and its time.
    pub(super) last: Option<(NodeKnowledge, u64)>,
    /// Whether the transaction cannot be mined: it is cancelled, every broadcast was answered, and no node knows it.
    pub(super) cannot_be_mined: bool,
}

/// The nodes' report about a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKnowledge {
    HasTransaction(B256),
    LacksTransaction,
    /// Some nodes did not answer.
    Unknown,
}

/// The locks of all transactions that are followed.
#[derive(Debug, Default)]
pub(super) struct SubmissionLocks(Mutex<HashMap<SubmissionId, Arc<SubmissionLock>>>);

impl SubmissionLocks {
    /// Returns the lock of a transaction, and creates it if it is new.
    pub(super) fn register(&self, batch: SubmissionId, signer: Address) -> Arc<SubmissionLock> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new_lock =
            || Arc::new(SubmissionLock { signer, answers: tokio::sync::Mutex::default() });
        Arc::clone(locks.entry(batch).or_insert_with(new_lock))
    }

    pub(super) fn remove(&self, batch: SubmissionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&batch);
    }

    pub(super) fn get(&self, batch: SubmissionId) -> Option<Arc<SubmissionLock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&batch).cloned()
    }
}
