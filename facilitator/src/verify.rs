//! The result of verifying a request.

use alloy_primitives::{Address, U256};
use bursar_chain::ports::ChainFault;
use bursar_x402::error::X402Error;

use crate::job::Job;
use crate::reason::{Reason, Rejection};
use crate::transfer::payload::ReadError;

/// Why a request was not verified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The request is invalid.
    #[error(transparent)]
    Malformed(#[from] X402Error),
    /// The payment is rejected.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// No node answers.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// The store could not be read.
    #[error("{0}")]
    Store(String),
}

impl From<ReadError> for VerifyError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Malformed(fault) => Self::Malformed(fault),
            ReadError::Rejected(rejection) => Self::Rejected(rejection),
        }
    }
}

impl From<Reason> for VerifyError {
    fn from(reason: Reason) -> Self {
        Self::Rejected(reason.into())
    }
}

/// The answer to a valid request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValidAnswer {
    pub payer: Option<Address>,
    /// The member `extra`.
    pub extra: Option<serde_json::Value>,
}

/// A job that passed all checks.
#[derive(Debug, Clone)]
pub struct VerifiedJob {
    pub job: Job,
    /// Whether the job has nothing left to do, so that it needs no transaction.
    pub is_done: bool,
    /// The member `extra` of the answer of `/verify`.
    pub extra: Option<serde_json::Value>,
    /// The payer's balance, in the smallest unit of the token.
    pub balance: U256,
    /// Gas limit of a transaction with this job alone, without Arbitrum's gas for data.
    pub gas: u64,
}
