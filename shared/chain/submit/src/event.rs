//! What has happened at a desk, as its host keeps it.

use alloy_primitives::B256;
use bursar_core::time::Utc;
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Fees, Raw};
use crate::desk::{Included, Kind, SubmissionId, Trouble};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    Opened {
        id: SubmissionId,
        call: Call,
        ceiling: u128,
        filler: bool,
        /// See [`Submission::until`](crate::Submission::until).
        until: Option<Utc>,
    },
    /// The nonce is its own until its end. A host keeps (network, signer, nonce) unique.
    Reserved {
        id: SubmissionId,
        nonce: u64,
    },
    /// This digest may be signed: the right to it rests on this being durable.
    Authorized {
        id: SubmissionId,
        kind: Kind,
        fees: Fees,
        digest: B256,
        at: Utc,
    },
    /// These bytes may be broadcast, and no others. They follow from the signature, and are kept beside it so
    /// that they are the same whatever program reads them back.
    Signed {
        id: SubmissionId,
        attempt: usize,
        signature: Signature65,
        raw: Raw,
    },
    Declined {
        id: SubmissionId,
        attempt: usize,
    },
    CancelWanted {
        id: SubmissionId,
    },
    Included {
        id: SubmissionId,
        included: Included,
    },
    Missed {
        id: SubmissionId,
        head: u64,
        at: Utc,
    },
    /// No more than this is offered from now on.
    Bounded {
        id: SubmissionId,
        ceiling: u128,
    },
    /// It is in no block any more, or its nonce is not used after all.
    WaitsAgain {
        id: SubmissionId,
    },
    Troubled {
        id: SubmissionId,
        trouble: Option<Trouble>,
    },
    Finished {
        id: SubmissionId,
        outcome: Outcome,
    },
}

impl Event {
    pub fn submission(&self) -> SubmissionId {
        match self {
            Self::Opened { id, .. }
            | Self::Reserved { id, .. }
            | Self::Authorized { id, .. }
            | Self::Signed { id, .. }
            | Self::Declined { id, .. }
            | Self::CancelWanted { id }
            | Self::Included { id, .. }
            | Self::Missed { id, .. }
            | Self::Bounded { id, .. }
            | Self::WaitsAgain { id }
            | Self::Troubled { id, .. }
            | Self::Finished { id, .. } => *id,
        }
    }
}

/// How a submission ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    Succeeded {
        hash: B256,
        block: u64,
    },
    /// Mined and paid for, and nothing else happened.
    Reverted {
        hash: B256,
        block: u64,
    },
    /// A transaction that does nothing took its place.
    Cancelled {
        hash: B256,
        block: u64,
    },
    /// Nothing was ever broadcast for it.
    Dropped,
    /// Its nonce was used by a transaction that is not ours, says the network. Where the network lied it
    /// may still happen: whoever counts money counts it as spent.
    Displaced,
}
