//! A scheme of x402: how requests are read and checked. `schemes` lists all of them.

use std::fmt::Debug;

use alloy_primitives::Address;
use bursar_chain::ports::BoxFuture;
use bursar_x402::required::Version;
use bursar_x402::settlement::SettlementRequest;

use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;
use crate::transfer::terms_check::Purpose;
use crate::verify::{ValidAnswer, VerifiedJob, VerifyError};
use crate::work::SenderRule;

/// A scheme of x402.
pub trait Scheme: Send + Sync + Debug {
    /// The name of the scheme on the wire.
    fn name(&self) -> &'static str;

    /// The protocol versions of the scheme.
    fn versions(&self) -> &'static [Version];

    /// Returns the rejection reasons for a payment whose scheme differs from the requirements, and for one whose
    /// network differs.
    fn mismatch_reasons(&self) -> (Reason, Reason);

    /// The member `extra` of the scheme's kinds in `/supported`.
    fn extra(&self, network: &NetworkContext) -> Option<serde_json::Value>;

    /// Whether the settings of a network contain everything that the scheme needs.
    fn is_configured(&self, _network: &NetworkContext) -> bool {
        true
    }

    /// The contracts without which the scheme is not offered on a network.
    fn contracts(&self, network: &NetworkContext) -> Vec<Address>;

    /// Reads a request and compares it with its requirements.
    ///
    /// Asks a node only for facts that are part of the job's key.
    ///
    /// # Errors
    /// [`VerifyError`].
    fn propose<'a>(
        &'a self,
        network: &'a NetworkContext,
        request: &'a SettlementRequest,
        purpose: Purpose,
        requester: &'a Requester,
    ) -> BoxFuture<'a, Result<Proposed, VerifyError>>;
}

/// The content of a request: a job to settle, or a statement that is only verified.
#[derive(Debug)]
pub enum Proposed {
    Job(Box<dyn Proposal>),
    Statement(Box<dyn Statement>),
}

/// A signed statement that can be verified, and that needs no job.
pub trait Statement: Send + Sync + Debug {
    /// The accounts that the statement pays.
    fn payees(&self) -> Vec<Address>;

    /// The payer that answers name.
    fn payer(&self) -> Option<Address>;

    /// The reason why the statement cannot be settled.
    fn settle_refusal(&self) -> Reason;

    /// Checks whether the statement is valid now.
    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<ValidAnswer, VerifyError>>;
}

/// A job that a request proposes: read, compared with its requirements, and not checked yet.
pub trait Proposal: Send + Sync + Debug {
    /// The key of the job.
    fn key(&self) -> JobKey;

    /// The key of the job with the preceding nonce. Meaningful only for methods that count nonces.
    fn preceding_key(&self) -> Option<JobKey> {
        None
    }

    /// The payer that answers name.
    fn payer(&self) -> Option<Address>;

    /// The accounts that are paid.
    fn payees(&self) -> Vec<Address>;

    /// Whether the job needs a transaction. A job that moves nothing needs none.
    fn needs_transaction(&self) -> bool {
        true
    }

    /// The accounts that may send the job.
    fn sender(&self) -> SenderRule {
        SenderRule::Any
    }

    /// Lower bound of the gas limit of the job's transaction, without gas for data.
    fn gas_min(&self) -> u64;

    /// Checks whether the job is accepted now. Asks no node.
    ///
    /// # Errors
    /// [`Rejection`].
    fn admit(&self, _network: &NetworkContext) -> Result<(), Rejection> {
        Ok(())
    }

    /// The message with which the job is refused as a duplicate; `None` uses the message of the code.
    fn duplicate_message(&self) -> Option<&'static str> {
        None
    }

    /// Whether a known job is exactly this one, signed by the same account. Asks no node.
    fn is_same_job(&self, job: &Job) -> bool;

    /// Checks whether the job can be carried out now.
    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        priority: Priority,
    ) -> BoxFuture<'a, Result<VerifiedJob, VerifyError>>;

    /// Returns the job if the payer's key signed it, or if it needs no signature.
    ///
    /// `None` if only [`Proposal::check`] can determine the signer or the content of the job.
    fn signed_by_key<'a>(
        &'a self,
        _network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<Option<Job>, VerifyError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}
