//! The slip: the right to one signature.

use alloy_primitives::{Address, B256};
use bursar_core::ids::RequestId;
use bursar_core::networks::ChainId;
use bursar_domain::Request;
use bursar_domain::mandates::IssuedMandate;
use bursar_domain::plan::Execution;
use bursar_domain::proofs::Statement;
use bursar_mandate::{Draft, MandateId};
use bursar_submit::{Outbox, SubmissionId, Unsigned};
use bursar_uniswap::Permit;
use bursar_x402::authorization::Authorization;
use bursar_x402::typed_data::TokenDomain;

use super::chain::Committed;

/// The object for which a slip permits a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The authorization of a payment.
    Request(RequestId),
    /// The permit of a trade's plan.
    Permit(RequestId),
    /// The text of a mandate.
    Mandate(MandateId),
    /// The statement about the receipt of a request.
    Receipt(RequestId),
    /// One attempt of a submission.
    Attempt { submission: SubmissionId, attempt: usize },
}

impl Subject {
    /// Returns whether the signature is for a mandate or a receipt, for which no money waits.
    pub(crate) fn is_statement(&self) -> bool {
        matches!(self, Self::Mandate(_) | Self::Receipt(_))
    }

    /// Returns whether the signature is for this request: its payment, its permit, or the open step of its plan.
    pub(crate) fn belongs_to(&self, request: &Request) -> bool {
        match self {
            Self::Request(id) | Self::Permit(id) => *id == request.id,
            Self::Attempt { submission, .. } => {
                let step = request.execution().and_then(Execution::open_step);
                step.is_some_and(|step| step.submission == *submission)
            }
            Self::Mandate(_) | Self::Receipt(_) => false,
        }
    }
}

/// The content whose hash is the digest, for signers that show it to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Terms {
    Payment {
        token: TokenDomain,
        authorization: Authorization,
    },
    Permit {
        chain: ChainId,
        permit2: Address,
        permit: Permit,
    },
    Transaction(Unsigned),
    /// A personal message (EIP-191).
    Mandate(Box<Draft>),
    /// A personal message (EIP-191).
    Receipt(Box<Statement>),
}

impl Terms {
    /// Returns the digest of these terms; `None` if a field of a permit is too large.
    pub fn digest(&self) -> Option<B256> {
        match self {
            Self::Payment { token, authorization } => Some(token.digest(authorization)),
            Self::Permit { chain, permit2, permit } => permit.digest(*chain, *permit2).ok(),
            Self::Transaction(unsigned) => Some(unsigned.digest()),
            Self::Mandate(draft) => Some(draft.digest()),
            Self::Receipt(statement) => Some(statement.digest()),
        }
    }
}

/// A slip and the terms that hash to its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningOrder {
    pub slip: Slip,
    pub terms: Terms,
}

/// The right to sign one digest with one key in one epoch.
///
/// Every constructor takes the proof of a commit or replay, so a slip exists only for a digest that the journal
/// contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slip {
    subject: Subject,
    signer: Address,
    digest: B256,
    epoch: u64,
}

impl Slip {
    /// Issues the slip of an authorized request; `None` if it is not authorized, or its price or network is unknown.
    pub(crate) fn issue(
        _on_disk: &Committed,
        request: &Request,
        epoch: u64,
    ) -> Option<SigningOrder> {
        let digest = request.digest()?;
        let token = request.ask.payment()?.token_domain()?;
        let terms = Terms::Payment { token, authorization: request.terms()?.clone() };
        let subject = Subject::Request(request.id);
        Some(SigningOrder { slip: Self { subject, signer: request.from, digest, epoch }, terms })
    }

    /// Issues the slip of a running trade's newest permit; `None` if it is signed, or the trade has ended.
    pub(crate) fn for_permit(
        _on_disk: &Committed,
        request: &Request,
        epoch: u64,
    ) -> Option<SigningOrder> {
        let digest = request.permit_digest()?;
        let permit = request.execution()?.permit.as_ref()?.permit;
        let network = request.ask.network()?;
        let (chain, permit2) = (network.chain, network.exchange?.permit2);
        let subject = Subject::Permit(request.id);
        let slip = Self { subject, signer: request.from, digest, epoch };
        Some(SigningOrder { slip, terms: Terms::Permit { chain, permit2, permit } })
    }

    /// Issues the slip of an outbox's attempt; `None` if it is unknown, signed or declined, or its digest is wrong.
    pub(crate) fn for_attempt(
        _on_disk: &Committed,
        outbox: &Outbox,
        submission: SubmissionId,
        attempt: usize,
        epoch: u64,
    ) -> Option<SigningOrder> {
        let tried = outbox.open.get(&submission)?.attempts.get(attempt)?;
        // Recompute the digest from the outbox's terms: the digest in the entry alone is not trusted.
        let unsigned = outbox.unsigned(submission, attempt)?;
        let same = unsigned.digest() == tried.digest;
        let signable = tried.raw.is_none() && !tried.declined && same;
        let slip = Self {
            subject: Subject::Attempt { submission, attempt },
            signer: outbox.key.signer,
            digest: tried.digest,
            epoch,
        };
        signable.then_some(SigningOrder { slip, terms: Terms::Transaction(unsigned) })
    }

    /// Issues the slip of an issued mandate; `None` if its text is not the text of its terms.
    pub(crate) fn for_mandate(
        _on_disk: &Committed,
        issued: &IssuedMandate,
        epoch: u64,
    ) -> Option<SigningOrder> {
        let draft = &issued.draft;
        // The text is built again from the terms: the text in the entry alone is not trusted.
        let slip = Self {
            subject: Subject::Mandate(draft.id),
            signer: draft.terms.wallet,
            digest: draft.digest(),
            epoch,
        };
        let terms = Terms::Mandate(Box::new(draft.clone()));
        (draft.text() == issued.text).then_some(SigningOrder { slip, terms })
    }

    /// Issues the slip of a recorded statement about a receipt.
    pub(crate) fn for_receipt(
        _on_disk: &Committed,
        statement: &Statement,
        epoch: u64,
    ) -> SigningOrder {
        let slip = Self {
            subject: Subject::Receipt(statement.request),
            signer: statement.signer,
            digest: statement.digest(),
            epoch,
        };
        SigningOrder { slip, terms: Terms::Receipt(Box::new(statement.clone())) }
    }

    /// Returns the object to sign.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Returns the request whose payment this slip authorizes; `None` for anything else.
    pub fn request(&self) -> Option<RequestId> {
        match self.subject {
            Subject::Request(id) => Some(id),
            Subject::Permit(_)
            | Subject::Attempt { .. }
            | Subject::Mandate(_)
            | Subject::Receipt(_) => None,
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

    /// Returns the gate's epoch when the slip was issued.
    ///
    /// A later freeze or lock voids the slip.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}
