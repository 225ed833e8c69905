//! The inputs of an outbox and the actions that it requests.

use alloy_primitives::B256;
use bursar_core::networks::Gas;
use bursar_core::time::Utc;
use bursar_x402::signature::Signature65;

use crate::call::{Call, Raw};
use crate::event::Event;
use crate::fees::FeeQuote;
use crate::outbox::SubmissionId;

/// The fixed rules of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Number of blocks, including the transaction's own, after which an outcome is final.
    pub confirmations: u64,
    /// How long an offer waits for a block before it is raised, in milliseconds.
    pub patience_ms: i64,
    /// How many submissions may hold a nonce at the same time.
    ///
    /// Empty transactions that fill a gap may exceed it.
    pub window: usize,
    /// The highest price of a unit of gas that empty transactions offer, in wei.
    ///
    /// No host sets a submission's ceiling above it.
    pub ceiling: u128,
    /// Whether a person gives each signature.
    ///
    /// If so, the first offer is the whole ceiling. Further attempts are requested by the host; only the empty
    /// transaction of an expired call is offered again without a request.
    pub person_signs: bool,
}

impl Rules {
    /// Returns the rules of a network's row.
    pub fn of(gas: &Gas, window: usize) -> Self {
        Self {
            confirmations: gas.confirmations.max(1),
            patience_ms: gas.patience_ms,
            window,
            ceiling: gas.ceiling,
            person_signs: false,
        }
    }

    /// Returns these rules for a signer that asks a person.
    ///
    /// One submission at a time holds a nonce. Otherwise a refusal could leave a gap of nonces that only further
    /// signatures would close.
    #[must_use]
    pub fn with_person_signing(self) -> Self {
        Self { window: 1, person_signs: true, ..self }
    }
}

/// A request of the host, a result, or the passage of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A host requests this call once. Repeating the request changes nothing. `until`: see
    /// [`Submission::until`](crate::Submission::until).
    Open { id: SubmissionId, call: Call, ceiling: u128, until: Option<Utc> },
    /// A host requests that the call is not executed, if that is still possible.
    Cancel { id: SubmissionId },
    /// A host requests another attempt of a signed submission: a higher offer for its call or, once it is cancelled,
    /// for its empty transaction. The ceiling of the rules applies. `most` is the highest price of a unit of gas, in
    /// wei, that the host accepts.
    Raise { id: SubmissionId, quote: Quote, most: u128 },
    /// The answer to [`Action::Quote`].
    Quoted(Quote),
    /// The result of [`Action::Sign`].
    Signature { id: SubmissionId, attempt: usize, signature: Signature65 },
    /// The signer refuses permanently. A signer that is only unavailable has not refused.
    Declined { id: SubmissionId, attempt: usize },
    /// The result of [`Action::Send`].
    Answered { id: SubmissionId, answer: SendAnswer },
    /// The result of [`Action::Lookup`]. `head` is the newest block. `settled` is the signer's transaction count as
    /// of the newest block that is final by the rules; only a deeper reorganization can lower it. `settled` is 0 if
    /// the count is unknown. `asked` is the number of hashes whose receipts were requested: a result that did not
    /// cover the newest attempt shows nothing about that attempt. `known` is false if no receipt was found and the
    /// node does not know the last hash.
    LookedUp {
        id: SubmissionId,
        asked: usize,
        found: Option<FoundReceipt>,
        known: bool,
        head: u64,
        settled: u64,
    },
    /// A new block arrived, or time has passed.
    Tick,
}

/// A node's report about prices and about the signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    pub fee: FeeQuote,
    /// The gas of an empty transaction.
    pub plain_gas: u64,
    /// `eth_getTransactionCount` at `pending`: the first nonce for which the node has no transaction.
    pub pending: u64,
    /// `eth_getTransactionCount` at `latest`: the number of the signer's mined transactions, whichever program sent
    /// them.
    pub mined: u64,
}

/// A node's answer to a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendAnswer {
    Accepted,
    AlreadyKnown,
    /// The nonce is used, perhaps by the same bytes.
    NonceTooLow,
    /// The price is too low, by itself or as a replacement.
    Underpriced,
    Unfunded,
    Refused,
    /// No answer, which proves nothing.
    Unclear,
}

/// The receipt of a requested hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundReceipt {
    pub hash: B256,
    pub block: u64,
    pub block_hash: B256,
    pub ok: bool,
}

/// An action that the host performs once the events of the step are on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Query the price of gas and the signer's transaction count.
    Quote,
    /// Have the outbox's signer sign this digest.
    Sign { id: SubmissionId, attempt: usize, digest: B256 },
    /// Broadcast these bytes.
    Send { id: SubmissionId, raw: Raw },
    /// Query the receipts of these hashes. If no receipt is found, query whether a node knows the last hash.
    Lookup { id: SubmissionId, hashes: Vec<B256> },
}

/// The consequences of an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    pub events: Vec<Event>,
    pub actions: Vec<Action>,
}

/// Why an input was rejected; a rejected input changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a submission with this id but different terms is already open")]
    OtherCall,
    #[error("too many submissions are open for this address")]
    Full,
    #[error("the time limit for the broadcast has passed")]
    Expired,
    #[error("there is no open submission with this id")]
    Unknown,
    #[error("a transaction of the submission is already in a block")]
    TooLate,
    #[error(
        "the gas price cannot be raised: the submission is not signed yet, or it offers the most that is allowed"
    )]
    NotRaised,
    #[error("the signature does not match the signer and the transaction")]
    WrongSignature,
}
