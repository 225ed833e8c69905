//! The events of an outbox, as a host persists them.

use alloy_primitives::B256;
use bursar_core::time::Utc;
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Fees, Raw};
use crate::outbox::{Included, Kind, SubmissionId, Trouble};

/// A change of an outbox.
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
    /// The submission holds this nonce until its end. A host keeps (network, signer, nonce) unique.
    Reserved {
        id: SubmissionId,
        nonce: u64,
    },
    /// This digest may be signed. The right to sign requires that this event is on disk.
    Authorized {
        id: SubmissionId,
        kind: Kind,
        fees: Fees,
        digest: B256,
        at: Utc,
    },
    /// These bytes may be broadcast, and no others for this attempt. The bytes follow from the signature. Both are
    /// stored, so that every version of the program broadcasts the same bytes.
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
    /// Lowers the submission's ceiling. Later offers for its call do not exceed it.
    CeilingLowered {
        id: SubmissionId,
        ceiling: u128,
    },
    /// The transaction is no longer in a block, or its nonce is unused after all.
    BackToPending {
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
    /// Returns the id of the submission that changed.
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
            | Self::CeilingLowered { id, .. }
            | Self::BackToPending { id }
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
    /// Mined and paid for, without any other effect.
    Reverted {
        hash: B256,
        block: u64,
    },
    /// An empty transaction used its nonce.
    Cancelled {
        hash: B256,
        block: u64,
    },
    /// Nothing was ever broadcast for it.
    Dropped,
    /// The network reports that another transaction used its nonce. If the network lied, the call may still
    /// happen, so callers must count its money as spent.
    NonceTaken,
}
