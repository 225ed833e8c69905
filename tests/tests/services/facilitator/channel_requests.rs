//! Requests to the facilitator about payment channels, their jobs, and the expected answers.

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
    /// Returns the kind of a request, for the tally.
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

/// The part of a deposit that a stranger signed instead of its payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forged {
    Voucher,
    Authorization,
}

/// A job that the chain can carry out only once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Deposit(usize),
    Claim(Vec<(usize, u128, u128)>),
    /// The receiver, and everything that it has claimed.
    Sweep(usize, u128),
    Refund(usize, u64),
}

/// The jobs whose success was returned, with the first request for each and whether it had an idempotency key. The
/// key decides the answer to repeats.
pub(crate) type ReturnedSuccesses = BTreeMap<Job, (Request, bool)>;

/// The jobs that an actor's own transaction did, with the first request for each.
pub(crate) type DoneElsewhere = BTreeMap<Job, (Request, Mined)>;

/// An expected answer.
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
    /// Returns how a step ended, for the tally.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Refused(code) => code.trim_start_matches("invalid_batch_settlement_evm_"),
            Self::Duplicate { .. } | Self::Elsewhere(_) => "duplicate",
            Self::Again(_) => "again",
            Self::Success(Success { proof: NamedTransaction::Own, .. }) => "done",
            Self::Success(Success { proof: NamedTransaction::Nothing, .. }) => "nothing to do",
            Self::Valid { .. } => "valid",
            Self::Report(_, None) => "unknown",
            Self::Report(_, Some(_)) => "shown",
            Self::Mined(true) => "mined",
            Self::Mined(false) => "reverted",
        }
    }
}

/// The successful answer to a request to settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Success {
    pub(crate) job: Job,
    pub(crate) proof: NamedTransaction,
    pub(crate) payer: Option<usize>,
    pub(crate) amount: Option<u128>,
    pub(crate) state: Option<(usize, ChannelState)>,
}

/// The transaction that a success names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedTransaction {
    /// One of the facilitator's signers sent the transaction.
    Own,
    /// There was nothing to do.
    Nothing,
}
