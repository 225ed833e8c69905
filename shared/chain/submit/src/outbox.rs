//! The outbox: the state that a host persists. It contains every submission that has not ended.

use std::collections::BTreeMap;
use std::fmt;

use alloy_primitives::{Address, B256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Fees, Raw, Unsigned};

/// Identifies an outbox: one signer on one network, whose nonces it assigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OutboxKey {
    pub chain: ChainId,
    pub signer: Address,
}

/// A submission's id, which a host uses only once.
///
/// The host chooses it; the outbox derives the ids of fillers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SubmissionId(pub [u8; 16]);

impl fmt::Debug for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubmissionId({})", self)
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The outbox of one signer on one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    pub key: OutboxKey,
    /// The lowest nonce above those of all our mined transactions.
    pub floor: u64,
    /// The number of submissions so far, which becomes the `turn` of the next submission.
    pub turns: u64,
    pub open: BTreeMap<SubmissionId, Submission>,
}

impl Outbox {
    /// Creates an empty outbox.
    pub fn new(key: OutboxKey) -> Self {
        Self { key, floor: 0, turns: 0, open: BTreeMap::new() }
    }

    /// Returns the reserved nonces, each with the submission that holds it.
    pub fn held_nonces(&self) -> BTreeMap<u64, SubmissionId> {
        self.open.iter().filter_map(|(id, one)| Some((one.nonce?, *id))).collect()
    }

    /// Returns the transaction of an attempt, or `None` if there is no such attempt.
    pub fn unsigned(&self, id: SubmissionId, attempt: usize) -> Option<Unsigned> {
        let one = self.open.get(&id)?;
        let tried = one.attempts.get(attempt)?;
        one.unsigned(&self.key, tried.kind, tried.fees)
    }
}

/// A call to execute on the chain once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub call: Call,
    /// The highest price that may be offered for a unit of the call's gas, in wei.
    ///
    /// Empty transactions may offer more.
    pub ceiling: u128,
    /// The moment until which the call may be broadcast; `None` means no limit.
    ///
    /// Afterwards an unsigned call is dropped, and an empty transaction replaces a signed call that is not mined.
    pub until: Option<Utc>,
    /// The submission's position in the order of arrival.
    pub turn: u64,
    /// The outbox created this submission to fill a gap of nonces; its call is empty.
    pub filler: bool,
    pub nonce: Option<u64>,
    /// Every transaction of this submission whose signature was ever authorized, in order.
    pub attempts: Vec<Attempt>,
    // Stored outboxes use the field's former name.
    #[serde(rename = "place")]
    pub chain_state: ChainState,
    /// The call is withdrawn: the host cancelled it, or it expired.
    pub cancel: bool,
    pub trouble: Option<Trouble>,
}

impl Submission {
    /// Returns whether the call itself may be offered or broadcast: it is neither cancelled nor expired.
    pub fn may_offer_call(&self, at: Utc) -> bool {
        !self.cancel && self.until.is_none_or(|until| at < until)
    }

    /// Returns whether an empty transaction that uses up the submission's nonce was authorized and not declined.
    pub fn is_given_up(&self) -> bool {
        let is_empty =
            |tried: &Attempt| matches!(tried.kind, Kind::Empty { .. }) && !tried.declined;
        self.attempts.iter().any(is_empty)
    }

    /// Returns whether the signed transaction with this hash may be broadcast now.
    ///
    /// An empty transaction always may.
    pub fn may_send(&self, hash: B256, at: Utc) -> bool {
        let of_hash = |tried: &&Attempt| tried.raw.as_ref().is_some_and(|raw| raw.hash == hash);
        match self.attempts.iter().find(of_hash).map(|tried| tried.kind) {
            Some(Kind::Empty { .. }) => true,
            Some(Kind::Call) => self.may_offer_call(at),
            None => false,
        }
    }

    /// Returns whether the attempt with this hash is the call, not an empty transaction.
    pub fn is_call(&self, hash: B256) -> bool {
        let of_hash = |tried: &Attempt| tried.raw.as_ref().is_some_and(|raw| raw.hash == hash);
        self.attempts.iter().any(|tried| of_hash(tried) && tried.kind == Kind::Call)
    }

    /// Returns the newest signed attempt, with its index and bytes.
    pub fn newest(&self) -> Option<(usize, &Attempt, &Raw)> {
        let mut tried = self.attempts.iter().enumerate().rev();
        tried.find_map(|(at, attempt)| Some((at, attempt, attempt.raw.as_ref()?)))
    }

    /// Returns whether the outbox's signer signed every signed attempt, with exactly its recorded terms.
    ///
    /// Hosts that read entries from untrusted sources need this check.
    pub fn is_genuine(&self, key: &OutboxKey) -> bool {
        self.attempts.iter().all(|tried| {
            match (&tried.raw, self.unsigned(key, tried.kind, tried.fees)) {
                (None, _unsigned) => true,
                (Some(raw), Some(unsigned)) => {
                    unsigned.digest() == tried.digest && raw.is_of(&unsigned, key.signer)
                }
                (Some(_), None) => false,
            }
        })
    }

    /// Returns the attempt that waits for its signature, with its index.
    pub fn unsigned_attempt(&self) -> Option<(usize, &Attempt)> {
        let waits = |attempt: &Attempt| attempt.raw.is_none() && !attempt.declined;
        self.attempts.iter().enumerate().find(|(_at, attempt)| waits(attempt))
    }

    /// Returns whether any attempt is signed.
    pub fn is_signed(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.raw.is_some())
    }

    /// Returns the call or an empty transaction, with the nonce of this submission.
    pub(crate) fn unsigned(&self, key: &OutboxKey, kind: Kind, fees: Fees) -> Option<Unsigned> {
        let call = match kind {
            Kind::Call => self.call.clone(),
            Kind::Empty { gas_limit } => Call::empty(key.signer, gas_limit),
        };
        Some(Unsigned { chain: key.chain, nonce: self.nonce?, call, fees })
    }
}

/// A transaction whose signature was authorized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub kind: Kind,
    pub fees: Fees,
    pub digest: B256,
    /// When the signature was authorized.
    pub at: Utc,
    /// The signed bytes, persisted before they are broadcast.
    pub raw: Option<Raw>,
    /// The signer refused, or the signature is no longer needed.
    pub declined: bool,
}

/// The effect of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Call,
    /// Only uses up the nonce.
    Empty {
        gas_limit: u64,
    },
}

/// The progress of a submission on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainState {
    Pending,
    Included(Included),
    /// Another transaction has used its nonce; first seen at block `head`.
    Missed {
        head: u64,
        at: Utc,
    },
}

/// The block of a mined attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Included {
    pub attempt: usize,
    pub block: u64,
    pub block_hash: B256,
    /// Whether the attempt succeeded; otherwise it was reverted.
    pub ok: bool,
}

/// Why a submission makes no progress.
///
/// It is never final: the signed transactions may still be mined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// The network's price is above the ceiling.
    TooExpensive,
    /// The nodes require a higher offer, either for a replacement or for any transaction.
    Underpriced,
    /// The signer's balance does not cover gas and value.
    Unfunded,
    /// A node refused it for another reason.
    Refused,
    /// The node's transaction count differs implausibly from ours.
    NonceJump,
}
