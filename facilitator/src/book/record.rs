//! An accepted job: its state, the gas reserved for it, and the request from which it was accepted.

use alloy_primitives::B256;
use bursar_core::time::Utc;
use bursar_submit::SubmissionId;
use serde::{Deserialize, Serialize};

use crate::book::reservation::GasReservation;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::reason::Reason;
use crate::transaction;
use crate::work::Effect;

/// Maximum number of mined transactions that may fail to carry out a payment.
///
/// After that the payment ends.
pub const ATTEMPTS_MAX: u8 = 3;

/// An accepted job, which `book/row` encodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub job: Job,
    pub accepted_at: Utc,
    /// The newest block at acceptance.
    ///
    /// The search for a settlement by another sender begins near it.
    pub since_block: u64,
    /// Number of mined transactions that failed to carry out the payment.
    pub attempts: u8,
    pub state: State,
    /// Gas reserved for the payment.
    pub gas: u64,
    /// A digest of the caller whose request was accepted.
    ///
    /// The gas counts against that caller's budget.
    pub gas_caller: B256,
    /// The request from which the payment was accepted.
    ///
    /// Once `settlement_pending` or the success was returned, it is the request that received it.
    pub origin: RequestOrigin,
    /// Whether `settlement_pending` was returned to `origin`.
    ///
    /// The requester may have delivered, so no other requester receives the success.
    pub pending_returned: bool,
    /// When the success was written to a caller's connection.
    pub success_returned_at: Option<Utc>,
}

impl Record {
    /// The key of the job.
    pub fn key(&self) -> JobKey {
        self.job.work().key()
    }

    /// The digest of the job.
    pub fn digest(&self) -> B256 {
        self.job.work().digest()
    }

    /// Gas and data reserved for the job.
    pub fn reservation(&self) -> GasReservation {
        GasReservation { gas: self.gas, data_kilobytes: transaction::data_kilobytes(&self.job) }
    }

    /// Returns this record, with `asked`, `promised` and `answered` of an earlier record of the same job.
    #[must_use]
    pub fn with_answers_of(&self, earlier: &Self) -> Self {
        let Self {
            origin: asked, pending_returned: promised, success_returned_at: answered, ..
        } = *earlier;
        Self {
            origin: asked,
            pending_returned: promised,
            success_returned_at: answered,
            ..self.clone()
        }
    }

    /// Whether the success may still be returned for this request, as far as the record shows.
    pub fn may_return_success_to(&self, origin: &RequestOrigin) -> bool {
        match self.success_returned_at {
            Some(_at) => origin.repeats(&self.origin),
            None => !self.pending_returned || origin.may_receive_success_of(&self.origin),
        }
    }

    /// Whether this payment is queued, and is the same acceptance of the same job as `other`.
    ///
    /// Another payment can have the same nonce, and a failed payment can be accepted again.
    pub fn is_queued_as(&self, other: &Self) -> bool {
        self.state == State::Queued
            && self.digest() == other.digest()
            && self.accepted_at == other.accepted_at
    }
}

/// Identifies the request that asked for a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestOrigin {
    /// A digest of the caller: the name of its API key, or else its address.
    pub caller: B256,
    /// A digest of the caller and its `Idempotency-Key`; `None` if the request has no key.
    pub idempotency: Option<B256>,
}

impl RequestOrigin {
    /// Whether this request repeats `other`, by its `Idempotency-Key`.
    ///
    /// Without a key no request repeats another, because all copies of a payment are identical.
    pub fn repeats(&self, other: &Self) -> bool {
        self.idempotency.is_some() && self.idempotency == other.idempotency
    }

    /// Whether this request may receive the success that `settlement_pending` promised to `other`.
    ///
    /// It may if it repeats `other`, or if both are requests of one caller without an `Idempotency-Key`.
    pub fn may_receive_success_of(&self, other: &Self) -> bool {
        let is_keyless = self.idempotency.is_none() && other.idempotency.is_none();
        self.repeats(other) || is_keyless && self.caller == other.caller
    }
}

/// The stage of a payment.
///
/// Serialized by position: append new variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// The payment waits for a transaction.
    Queued,
    /// The payment is part of this batch.
    Sent { batch: SubmissionId },
    /// The job was carried out.
    Settled { hash: B256, block: u64, at: Utc, effect: Effect },
    /// The money has not moved. If the reason is [`Reason::UnexpectedSettle`], a transaction may still move it;
    /// otherwise none can.
    Failed { reason: Reason, message: String, at: Utc },
    /// The job has succeeded without a transaction, because nothing had to move. It is never executed, and its
    /// authorization can no longer be used.
    Closed { at: Utc },
    /// The job was executed by a transaction that this book did not send: by another facilitator, another store or a
    /// stranger.
    SettledElsewhere { hash: B256, block: u64, at: Utc, effect: Effect },
}

impl State {
    /// Whether the payment can still be carried out.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Queued | Self::Sent { .. })
    }

    /// Whether the job has succeeded.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Settled { .. } | Self::Closed { .. } | Self::SettledElsewhere { .. } => true,
            Self::Queued | Self::Sent { .. } | Self::Failed { .. } => false,
        }
    }

    /// The transaction that carried out the job, and its block.
    pub fn settlement(&self) -> Option<(B256, u64)> {
        match self {
            Self::Settled { hash, block, .. } | Self::SettledElsewhere { hash, block, .. } => {
                Some((*hash, *block))
            }
            Self::Closed { .. } | Self::Queued | Self::Sent { .. } | Self::Failed { .. } => None,
        }
    }

    /// When the payment ended; `None` while it is open.
    pub fn ended_at(&self) -> Option<Utc> {
        match self {
            Self::Settled { at, .. }
            | Self::Failed { at, .. }
            | Self::Closed { at }
            | Self::SettledElsewhere { at, .. } => Some(*at),
            Self::Queued | Self::Sent { .. } => None,
        }
    }
}
