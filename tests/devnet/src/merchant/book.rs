//! What the merchant remembers: the payments that came in, and which authorizations were used up.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::{Address, B256};
use serde_json::Value;

use crate::stable::Authorization;

/// A payment header that reached the merchant.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    /// The decoded header, if it was JSON at all: for tests of what a wallet writes.
    pub payload: Option<Value>,
    pub outcome: Outcome,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The money moved.
    Settled { terms: Authorization, transaction: B256 },
    /// The merchant has no chain: nothing but the signature was verified.
    VerifiedOnly { terms: Authorization },
    /// No goods, and why.
    Refused { reason: String },
}

impl Outcome {
    /// Whether the goods were handed out.
    pub fn is_paid(&self) -> bool {
        match self {
            Self::Settled { .. } | Self::VerifiedOnly { .. } => true,
            Self::Refused { .. } => false,
        }
    }
}

/// A mutex and not an owner with a queue: each visit is one insertion, and nothing is awaited inside.
#[derive(Debug, Default)]
pub(super) struct Book(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    used: HashSet<(Address, B256)>,
    received: Vec<Received>,
}

impl Book {
    /// Marks an authorization as used; `false` if it was already, so that of two twins one is served.
    pub(super) fn claim(&self, terms: &Authorization) -> bool {
        self.pages().used.insert((terms.from, terms.nonce))
    }

    /// Takes a claim back: the settlement failed, and the payer may try again.
    pub(super) fn release(&self, terms: &Authorization) {
        self.pages().used.remove(&(terms.from, terms.nonce));
    }

    pub(super) fn record(&self, received: Received) {
        self.pages().received.push(received);
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.pages().received.clone()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
