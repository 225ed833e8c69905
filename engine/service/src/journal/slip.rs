//! The right to one signature.

use alloy_primitives::{Address, B256};
use bursar_core::ids::RequestId;
use bursar_domain::Request;
use bursar_submit::{Desk, SubmissionId};

use super::chain::Committed;

/// What is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The authorization of a payment.
    Request(RequestId),
    /// One attempt to have a transaction mined.
    Attempt { submission: SubmissionId, attempt: usize },
}

/// Allows the vault to sign exactly one digest with exactly one key, while its epoch lasts. It exists only
/// for what the journal holds: both ways to get one take the proof of a commit or of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    subject: Subject,
    signer: Address,
    digest: B256,
    epoch: u64,
}

impl Slip {
    /// The slip of an authorized request; `None` if the request is not authorized.
    pub(crate) fn issue(_on_disk: &Committed, request: &Request, epoch: u64) -> Option<Self> {
        let digest = request.digest()?;
        Some(Self { subject: Subject::Request(request.id), signer: request.from, digest, epoch })
    }

    /// The slip of an attempt that a desk has authorized and nobody has signed.
    pub(crate) fn for_attempt(
        _on_disk: &Committed,
        desk: &Desk,
        submission: SubmissionId,
        attempt: usize,
        epoch: u64,
    ) -> Option<Self> {
        let tried = desk.open.get(&submission)?.attempts.get(attempt)?;
        // What is signed is what the desk's own terms make of it, whatever digest an entry names.
        let same = desk.unsigned(submission, attempt)?.digest() == tried.digest;
        let waits = tried.raw.is_none() && !tried.declined && same;
        waits.then_some(Self {
            subject: Subject::Attempt { submission, attempt },
            signer: desk.key.signer,
            digest: tried.digest,
            epoch,
        })
    }

    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The request whose payment this authorizes; `None` for a transaction.
    pub fn request(&self) -> Option<RequestId> {
        match self.subject {
            Subject::Request(id) => Some(id),
            Subject::Attempt { .. } => None,
        }
    }

    pub fn signer(&self) -> Address {
        self.signer
    }

    pub fn digest(&self) -> B256 {
        self.digest
    }

    /// The vault's epoch when the slip was issued: a freeze or lock since then makes it worthless.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}
