//! What this facilitator has taken on, and what became of it: the values that are kept.

pub mod gas;
pub mod ledger;
pub mod redb_store;
pub mod store;

use alloy_primitives::{Address, B256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use bursar_submit::SubmissionId;
use serde::{Deserialize, Serialize};

use crate::book::gas::Aside;
use crate::payment::{Payment, PaymentKey};
use crate::reason::Reason;
use crate::transaction;

/// How often a payment that was found good each time is sent.
pub const ATTEMPTS_MAX: u8 = 3;

/// A payment that was taken on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub payment: Payment,
    pub accepted_at: Utc,
    /// The newest block then: whoever was quicker than we are was so after it.
    pub since_block: u64,
    /// How often it was sent without success and found good again.
    pub attempts: u8,
    pub state: State,
    /// Gas that is set aside for it.
    pub gas: u64,
    /// A digest of the caller whose request was accepted: the gas counts against its budget.
    pub gas_of: B256,
    /// Which request may receive its success, or has.
    pub asked: AskedBy,
    /// When its success was written to the connection of a caller. It is returned once.
    pub answered: Option<Utc>,
}

impl Record {
    /// What is set aside for it.
    pub fn aside(&self) -> Aside {
        Aside { gas: self.gas, kilobytes: transaction::kilobytes(&self.payment) }
    }

    /// Whether this is the same payment, by its digest, and is queued. Another payment can have the same nonce.
    pub fn waits_as(&self, other: &Self) -> bool {
        self.state == State::Queued && self.payment.digest == other.payment.digest
    }
}

/// Which request asked for a payment: the one that may receive its success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AskedBy {
    /// A digest of the caller's name: its API key, or else its address.
    pub caller: B256,
    /// A digest of the caller and its `Idempotency-Key`, where it sent one.
    pub idempotency: Option<B256>,
}

impl AskedBy {
    /// Whether this request repeats that one, by its `Idempotency-Key`. Without a key no request repeats another:
    /// a payment is shared by all its copies.
    pub fn repeats(&self, other: &Self) -> bool {
        self.idempotency.is_some() && self.idempotency == other.idempotency
    }
}

/// How far a payment is. Kept by the place in this list: what is new comes last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It waits for a transaction.
    Queued,
    /// It is part of this one.
    Sent { batch: SubmissionId },
    /// The money has moved.
    Settled { hash: B256, block: u64, at: Utc },
    /// It has not, and by what was sent for it it never will.
    Failed { reason: Reason, message: String, at: Utc },
}

impl State {
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Queued | Self::Sent { .. })
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<Utc> {
        match self {
            Self::Settled { at, .. } | Self::Failed { at, .. } => Some(*at),
            Self::Queued | Self::Sent { .. } => None,
        }
    }
}

/// Payments that share a transaction. What the transaction does follows from them, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub id: SubmissionId,
    pub chain: ChainId,
    /// Who sends it.
    pub signer: Address,
    pub payments: Vec<PaymentKey>,
    pub gas_limit: u64,
    /// Data of its payments, as [`Aside`] counts it.
    pub kilobytes: u64,
    /// A transaction of another sender, in which a payment was found. It is only watched until it is final.
    pub found: Option<B256>,
}

impl Batch {
    /// A transaction of another sender in which a payment was found.
    pub fn found(id: SubmissionId, payment: &Payment, hash: B256) -> Self {
        Self {
            id,
            chain: payment.chain,
            signer: Address::ZERO,
            payments: vec![payment.key()],
            gas_limit: 0,
            kilobytes: 0,
            found: Some(hash),
        }
    }

    /// What is set aside for it.
    pub fn aside(&self) -> Aside {
        Aside { gas: self.gas_limit, kilobytes: self.kilobytes }
    }
}
