//! The locks under which the transactions in flight are submitted or withdrawn.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{Address, B256};
use bursar_submit::SubmissionId;

/// One transaction that is followed, and the lock under which it is submitted or withdrawn.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) signer: Address,
    pub(super) lock: tokio::sync::Mutex<Asked>,
}

/// What nodes answered about a transaction. Cached, because all its payments may be due at once.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The last answer and its time.
    pub(super) last: Option<(Nodes, u64)>,
    /// It was cancelled, every broadcast of it was answered, and no node has it: it cannot be mined.
    pub(super) gone: bool,
}

/// What nodes report about a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nodes {
    Have(B256),
    HaveNot,
    /// Some nodes did not answer.
    Unknown,
}

/// The gates of all transactions that are followed.
#[derive(Debug, Default)]
pub(super) struct Gates(Mutex<HashMap<SubmissionId, Arc<Gate>>>);

impl Gates {
    pub(super) fn open(&self, batch: SubmissionId, signer: Address) -> Arc<Gate> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = || Arc::new(Gate { signer, lock: tokio::sync::Mutex::default() });
        Arc::clone(gates.entry(batch).or_insert_with(gate))
    }

    pub(super) fn close(&self, batch: SubmissionId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&batch);
    }

    pub(super) fn get(&self, batch: SubmissionId) -> Option<Arc<Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&batch).cloned()
    }
}
