//! What a desk is told, and what it wants done.

use alloy_primitives::B256;
use bursar_core::networks::Gas;
use bursar_core::time::Utc;
use bursar_x402::signature::Signature65;

use crate::call::{Call, Raw};
use crate::desk::SubmissionId;
use crate::event::Event;
use crate::fees::FeeQuote;

/// What does not change while a desk works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// From how many blocks on, its own included, an end is final.
    pub confirmations: u64,
    /// How long an offer waits for a block before more is offered.
    pub patience_ms: i64,
    /// How many submissions hold a nonce at a time.
    pub window: usize,
    /// The most that is ever offered for a unit of gas, in wei, also for doing nothing.
    pub ceiling: u128,
}

impl Rules {
    /// The rules of a network's row.
    pub fn of(gas: &Gas, window: usize) -> Self {
        Self {
            confirmations: gas.confirmations.max(1),
            patience_ms: gas.patience_ms,
            window,
            ceiling: gas.ceiling,
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A host wants this done, once. The same again changes nothing. `until`: see
    /// [`Submission::until`](crate::Submission::until).
    Open { id: SubmissionId, call: Call, ceiling: u128, until: Option<Utc> },
    /// A host wants it not to happen, if that is still possible.
    Cancel { id: SubmissionId },
    /// [`Action::Quote`] was answered.
    Quoted(Quote),
    /// [`Action::Sign`] was done.
    Signature { id: SubmissionId, attempt: usize, signature: Signature65 },
    /// The signer will not sign this. A signer that is only not available is no reason to say so.
    Declined { id: SubmissionId, attempt: usize },
    /// [`Action::Send`] was done.
    Answered { id: SubmissionId, answer: SendAnswer },
    /// [`Action::Look`] was done. `head` is the newest block, `settled` how many transactions the signer
    /// had sent as of the youngest block that is final by the rules: what it counts, nothing takes back.
    /// `asked` is for how many hashes receipts were looked for: an answer that did not know of the newest
    /// attempt says nothing about it.
    Seen {
        id: SubmissionId,
        asked: usize,
        found: Option<Found>,
        known: bool,
        head: u64,
        settled: u64,
    },
    /// A block was made, or time has passed.
    Tick,
}

/// What a node says about prices, and about the signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    pub fee: FeeQuote,
    /// What a transaction that does nothing needs.
    pub plain_gas: u64,
    /// `eth_getTransactionCount` at `pending`: the first nonce that the node is missing.
    pub pending: u64,
    /// The same at `latest`: how many are mined, by whoever has the key.
    pub mined: u64,
}

/// What a node said to a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendAnswer {
    Accepted,
    AlreadyKnown,
    /// The nonce is used, perhaps by these very bytes.
    NonceTooLow,
    /// It offers too little, by itself or to replace another.
    Underpriced,
    Unfunded,
    Refused,
    /// No answer, which is no proof of anything.
    Unclear,
}

/// A receipt of one of the hashes that were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub hash: B256,
    pub block: u64,
    pub block_hash: B256,
    pub ok: bool,
}

/// What the host does once the events of the step are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ask what gas costs and how many transactions the signer has sent.
    Quote,
    /// Have this digest signed by the desk's signer.
    Sign { id: SubmissionId, attempt: usize, digest: B256 },
    /// Broadcast these bytes.
    Send { id: SubmissionId, raw: Raw },
    /// Look for receipts of these hashes; where there are none, whether a node knows the last of them.
    Look { id: SubmissionId, hashes: Vec<B256> },
}

/// What follows from an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    pub events: Vec<Event>,
    pub actions: Vec<Action>,
}

/// Why an input is not taken. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a submission with this id is already open")]
    OtherCall,
    #[error("too many submissions are open for this address")]
    Full,
    #[error("it is too late to broadcast it")]
    Expired,
    #[error("there is no open submission with this id")]
    Unknown,
    #[error("it is already in a block")]
    TooLate,
    #[error("the signature does not match the signer and the transaction")]
    WrongSignature,
}
