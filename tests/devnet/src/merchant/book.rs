//! The payments that a merchant received and the authorizations that were used.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256};
use serde_json::Value;

use crate::stable::Authorization;

/// A payment header that reached the merchant.
#[derive(Debug, Clone)]
pub struct ReceivedPayment {
    pub path: String,
    /// The decoded header if it was valid JSON, so that tests can check what a wallet writes.
    pub payload: Option<Value>,
    pub outcome: Outcome,
}

/// The result of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The money moved.
    Settled { terms: Authorization, transaction: B256 },
    /// The merchant has no chain: only the signature was verified.
    VerifiedOnly { terms: Authorization },
    /// The goods were refused, for this reason.
    Refused { reason: String },
}

impl Outcome {
    /// Returns whether the goods were handed out.
    pub fn is_paid(&self) -> bool {
        match self {
            Self::Settled { .. } | Self::VerifiedOnly { .. } => true,
            Self::Refused { .. } => false,
        }
    }
}

/// Uses a mutex instead of an owning task: each access is one insertion, and nothing is awaited inside.
#[derive(Debug, Default)]
pub(super) struct Book(Mutex<BookEntries>);

#[derive(Debug, Default)]
struct BookEntries {
    used_authorizations: HashSet<(Address, B256)>,
    received: Vec<ReceivedPayment>,
}

impl Book {
    /// Marks an authorization as used. Returns `false` if it was used before, so that only one
    /// of two duplicates is served.
    pub(super) fn claim(&self, terms: &Authorization) -> bool {
        self.lock().used_authorizations.insert((terms.from, terms.nonce))
    }

    /// Releases a claim after a failed settlement, so that the payer may try again.
    pub(super) fn release(&self, terms: &Authorization) {
        self.lock().used_authorizations.remove(&(terms.from, terms.nonce));
    }

    pub(super) fn record(&self, received: ReceivedPayment) {
        self.lock().received.push(received);
    }

    pub(super) fn received(&self) -> Vec<ReceivedPayment> {
        self.lock().received.clone()
    }

    fn lock(&self) -> MutexGuard<'_, BookEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
