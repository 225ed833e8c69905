//! What a host keeps: every submission that is not over.

use std::collections::BTreeMap;
use std::fmt;

use alloy_primitives::{Address, B256};
use bursar_core::networks::ChainId;
use bursar_core::time::Utc;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Fees, Raw, Unsigned};

/// One signer on one network: whose nonces these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeskKey {
    pub chain: ChainId,
    pub signer: Address,
}

/// What a host calls a submission. It never uses one twice.
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

/// All that is open for one signer on one network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Desk {
    pub key: DeskKey,
    /// The first nonce above all that ours were mined with.
    pub floor: u64,
    /// How many submissions there were: the order of the next.
    pub turns: u64,
    pub open: BTreeMap<SubmissionId, Submission>,
}

impl Desk {
    pub fn new(key: DeskKey) -> Self {
        Self { key, floor: 0, turns: 0, open: BTreeMap::new() }
    }

    /// The nonces that are held, each by one submission.
    pub fn held(&self) -> BTreeMap<u64, SubmissionId> {
        self.open.iter().filter_map(|(id, one)| Some((one.nonce?, *id))).collect()
    }

    /// What an attempt of a submission would put on the chain; `None` if there is none such.
    pub fn unsigned(&self, id: SubmissionId, attempt: usize) -> Option<Unsigned> {
        let one = self.open.get(&id)?;
        let tried = one.attempts.get(attempt)?;
        one.unsigned(&self.key, tried.kind, tried.fees)
    }
}

/// One thing that is to happen on the chain once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    pub call: Call,
    /// The most that may be offered for a unit of gas, in wei.
    pub ceiling: u128,
    /// The call is broadcast before this moment only. Afterwards its nonce is used by a transaction that does
    /// nothing. `None`: no limit.
    pub until: Option<Utc>,
    /// Its place in the order of arrival.
    pub turn: u64,
    /// The desk's own: it fills a gap of nonces and does nothing else.
    pub filler: bool,
    pub nonce: Option<u64>,
    /// All that was ever allowed to be signed for it, in order.
    pub attempts: Vec<Attempt>,
    pub place: Place,
    /// Somebody wants it not to happen.
    pub cancel: bool,
    pub trouble: Option<Trouble>,
}

impl Submission {
    /// Whether the call itself may be offered or broadcast: it was not cancelled and its time has not passed.
    pub fn may_go(&self, at: Utc) -> bool {
        !self.cancel && self.until.is_none_or(|until| at < until)
    }

    /// Whether a transaction that does nothing was allowed for its nonce.
    pub fn is_given_up(&self) -> bool {
        let for_nothing =
            |tried: &Attempt| matches!(tried.kind, Kind::Nothing { .. }) && !tried.declined;
        self.attempts.iter().any(for_nothing)
    }

    /// Whether these bytes may be broadcast now. A transaction that does nothing always may.
    pub fn may_send(&self, hash: B256, at: Utc) -> bool {
        let of_hash = |tried: &&Attempt| tried.raw.as_ref().is_some_and(|raw| raw.hash == hash);
        match self.attempts.iter().find(of_hash).map(|tried| tried.kind) {
            Some(Kind::Nothing { .. }) => true,
            Some(Kind::Whole) => self.may_go(at),
            None => false,
        }
    }

    /// Whether the attempt with this hash carries out the call, and not a no-op.
    pub fn is_call(&self, hash: B256) -> bool {
        let of_hash = |tried: &Attempt| tried.raw.as_ref().is_some_and(|raw| raw.hash == hash);
        self.attempts.iter().any(|tried| of_hash(tried) && tried.kind == Kind::Whole)
    }

    /// The newest bytes that may be broadcast.
    pub fn newest(&self) -> Option<(usize, &Attempt, &Raw)> {
        let mut tried = self.attempts.iter().enumerate().rev();
        tried.find_map(|(at, attempt)| Some((at, attempt, attempt.raw.as_ref()?)))
    }

    /// Whether everything that counts as signed here was signed by the desk's signer for these very terms:
    /// asked where entries may be anybody's.
    pub fn is_genuine(&self, key: &DeskKey) -> bool {
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

    /// An attempt that waits for its signature.
    pub fn unsigned_attempt(&self) -> Option<(usize, &Attempt)> {
        let waits = |attempt: &Attempt| attempt.raw.is_none() && !attempt.declined;
        self.attempts.iter().enumerate().find(|(_at, attempt)| waits(attempt))
    }

    pub fn is_signed(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.raw.is_some())
    }

    /// What this submission may put on the chain: its call or nothing, on its own nonce.
    pub(crate) fn unsigned(&self, key: &DeskKey, kind: Kind, fees: Fees) -> Option<Unsigned> {
        let call = match kind {
            Kind::Whole => self.call.clone(),
            Kind::Nothing { gas_limit } => Call::nothing(key.signer, gas_limit),
        };
        Some(Unsigned { chain: key.chain, nonce: self.nonce?, call, fees })
    }
}

/// One transaction that was allowed to be signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub kind: Kind,
    pub fees: Fees,
    pub digest: B256,
    /// When it was allowed.
    pub at: Utc,
    /// What was signed: kept before it is sent.
    pub raw: Option<Raw>,
    /// The signer refused.
    pub declined: bool,
}

/// What an attempt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Whole,
    /// Takes the nonce away from the others.
    Nothing {
        gas_limit: u64,
    },
}

/// What the chain says of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    Waiting,
    Included(Included),
    /// Since this block its nonce is used, and by none of ours.
    Missed {
        head: u64,
        at: Utc,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Included {
    pub attempt: usize,
    pub block: u64,
    pub block_hash: B256,
    /// It was not reverted.
    pub ok: bool,
}

/// Why a submission does not get on. None is an end: what was signed may still be mined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// The network wants more than the ceiling.
    TooExpensive,
    /// The nodes want a higher offer for a replacement, or for anything.
    Underpriced,
    /// The signer cannot pay for gas and value.
    Unfunded,
    /// A node refused it for another reason.
    Refused,
    /// The node's count of transactions is further from ours than anything explains.
    NonceJump,
}
