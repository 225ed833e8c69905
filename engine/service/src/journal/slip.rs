//! The slip: the right to one signature.

use alloy_primitives::{Address, B256};
use bursar_core::ids::RequestId;
use bursar_domain::Request;
use bursar_submit::{Outbox, SubmissionId};

use super::chain::Committed;

/// The object for which a slip permits a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The authorization of a payment.
    Request(RequestId),
    /// The permit of a trade's plan.
    Permit(RequestId),
    /// One attempt of a submission.
    Attempt { submission: SubmissionId, attempt: usize },
}

/// The right to sign one digest with one key in one epoch. Every constructor takes the proof of a commit or replay, so
/// a slip exists only for a digest that the journal contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    subject: Subject,
    signer: Address,
    digest: B256,
    epoch: u64,
}

impl Slip {
    /// Issues the slip of an authorized request; `None` if it is not authorized, or its price or network is unknown.
    pub(crate) fn issue(_on_disk: &Committed, request: &Request, epoch: u64) -> Option<Self> {
        let digest = request.digest()?;
        Some(Self { subject: Subject::Request(request.id), signer: request.from, digest, epoch })
    }

    /// Issues the slip of a running trade's newest permit; `None` if it is signed, or the trade has ended.
    pub(crate) fn for_permit(_on_disk: &Committed, request: &Request, epoch: u64) -> Option<Self> {
        let digest = request.permit_digest()?;
        Some(Self { subject: Subject::Permit(request.id), signer: request.from, digest, epoch })
    }

    /// Issues the slip of an outbox's attempt; `None` if it is unknown, signed or declined, or its digest is wrong.
    pub(crate) fn for_attempt(
        _on_disk: &Committed,
        outbox: &Outbox,
        submission: SubmissionId,
        attempt: usize,
        epoch: u64,
    ) -> Option<Self> {
        let tried = outbox.open.get(&submission)?.attempts.get(attempt)?;
        // Recompute the digest from the outbox's terms: the digest in the entry alone is not trusted.
        let same = outbox.unsigned(submission, attempt)?.digest() == tried.digest;
        let signable = tried.raw.is_none() && !tried.declined && same;
        signable.then_some(Self {
            subject: Subject::Attempt { submission, attempt },
            signer: outbox.key.signer,
            digest: tried.digest,
            epoch,
        })
    }

    /// Returns the object to sign.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Returns the request whose payment this slip authorizes; `None` for a permit or a transaction.
    pub fn request(&self) -> Option<RequestId> {
        match self.subject {
            Subject::Request(id) => Some(id),
            Subject::Permit(_) | Subject::Attempt { .. } => None,
        }
    }

    /// Returns the address whose key must sign.
    pub fn signer(&self) -> Address {
        self.signer
    }

    /// Returns the digest to sign.
    pub fn digest(&self) -> B256 {
        self.digest
    }

    /// Returns the gate's epoch when the slip was issued. A later freeze or lock voids the slip.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}
