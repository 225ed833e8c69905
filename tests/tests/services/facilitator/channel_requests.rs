//! Requests to the facilitator about payment channels, the jobs that they stand for, and what answers must be.

use std::collections::BTreeMap;

use crate::facilitator::channel_model::{Batch, ChannelState, Mined, Refund};

/// A request to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Deposit { number: usize, ceiling: u128, forged: Option<Forged> },
    Claim(Batch),
    Sweep(usize),
    Refund(Refund),
}

impl Request {
    /// The kind of a request.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Deposit { .. } => "deposit",
            Self::Claim(_) => "claim",
            Self::Sweep(_) => "sweep",
            Self::Refund(refund) if refund.claims.rows.is_empty() => "refund",
            Self::Refund(_) => "refund with claims",
        }
    }
}

/// What a stranger signed instead of a deposit's payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forged {
    Voucher,
    Authorization,
}

/// What the chain can carry out once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Deposit(usize),
    Claim(Vec<(usize, u128, u128)>),
    /// By the receiver and everything that it has claimed.
    Sweep(usize, u128),
    Refund(usize, u64),
}

/// The jobs whose success was returned, with their first requests. Whether that had an idempotency key, decides about
/// repeats.
pub(crate) type Book = BTreeMap<Job, (Request, bool)>;

/// The jobs that an actor's own transaction did, with the first requests for them.
pub(crate) type Elsewhere = BTreeMap<Job, (Request, Mined)>;

/// What an answer must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Refused with this code, by either endpoint.
    Refused(String),
    /// A duplicate. The answer names the transaction only if the request is the settled one.
    Duplicate {
        job: Job,
        is_same: bool,
    },
    /// A duplicate, because an actor's own transaction did the job.
    Elsewhere(Mined),
    /// The answer that the job's first request received.
    Again(Job),
    Success(Success),
    Valid {
        payer: usize,
        state: Option<(usize, ChannelState)>,
    },
    /// The answer of `GET /batch/channel/{id}`; `None` if the channel does not exist.
    Report(usize, Option<ChannelState>),
    Mined(bool),
}

impl Expected {
    /// How a step ended.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Refused(code) => code.trim_start_matches("invalid_batch_settlement_evm_"),
            Self::Duplicate { .. } | Self::Elsewhere(_) => "duplicate",
            Self::Again(_) => "again",
            Self::Success(Success { proof: Proof::Own, .. }) => "done",
            Self::Success(Success { proof: Proof::Nothing, .. }) => "nothing to do",
            Self::Valid { .. } => "valid",
            Self::Report(_, None) => "unknown",
            Self::Report(_, Some(_)) => "shown",
            Self::Mined(true) => "mined",
            Self::Mined(false) => "reverted",
        }
    }
}

/// A success of a request to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Success {
    pub(crate) job: Job,
    pub(crate) proof: Proof,
    pub(crate) payer: Option<usize>,
    pub(crate) amount: Option<u128>,
    pub(crate) state: Option<(usize, ChannelState)>,
}

/// The transaction that a success names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    /// One of the facilitator's signers sent it.
    Own,
    /// There was nothing to do.
    Nothing,
}
