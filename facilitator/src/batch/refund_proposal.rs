//! Reads and checks requests to refund.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::ports::BoxFuture;
use bursar_core::networks::ChainId;
use bursar_x402::channel::ChannelConfig;
use bursar_x402::channel::payload::CompletedRefund;

use crate::batch::claim::ROW_GAS;
use crate::batch::claim_proposal::{CheckedClaims, ClaimUse, USE_OF_SIGNED_CLAIMS};
use crate::batch::permission::Permission;
use crate::batch::refund::{ChannelRefund, GAS};
use crate::batch::state::ChannelState;
use crate::batch::state_reads;
use crate::batch::terms;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, CallOutcome, Reads, UNTRUSTED_CALL_GAS};
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;
use crate::scheme::Proposal;
use crate::sent_transaction;
use crate::signature;
use crate::transaction;
use crate::verify::{VerifiedJob, VerifyError};
use crate::work::Work;

/// A refund that was read from a request.
#[derive(Debug)]
pub(super) struct RefundProposal {
    chain: ChainId,
    config: ChannelConfig,
    channel: B256,
    amount: u128,
    nonce: U256,
    digest: B256,
    signature: Bytes,
    is_by_key: bool,
    claims: Option<CheckedClaims>,
}

impl RefundProposal {
    /// Reads a refund. Signs it as the authorizer if a signature is missing and the permission allows it. Asks no node.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn read(
        network: &NetworkContext,
        refund: CompletedRefund,
        requester: &Requester,
    ) -> Result<Self, Rejection> {
        let CompletedRefund {
            config,
            voucher,
            amount,
            nonce,
            claims,
            refund_signature,
            claim_signature,
        } = refund;
        let reject = |reason: Reason| Rejection::from(reason).for_payer(config.payer);
        let domain = terms::escrow_domain(network);
        let permission = Permission::of(network, requester);
        let channel = domain.channel_id(&config);
        if channel != voucher.channel_id {
            return Err(reject(Reason::ChannelIdMismatch));
        }
        if !network.config.accepts_token(config.token) {
            return Err(reject(Reason::AssetNotServed));
        }
        if amount == 0 {
            return Err(reject(Reason::RefundAmount));
        }
        let claims = if claims.is_empty() {
            None
        } else {
            let claim_use = ClaimUse::BeforeRefund(permission);
            let claims = CheckedClaims::read(network, claims, claim_signature, claim_use);
            Some(claims.map_err(|rejection| rejection.for_payer(config.payer))?)
        };
        let digest = domain.refund_digest(channel, nonce, amount);
        let signature = match refund_signature {
            Some(signature) => signature,
            None => permission
                .sign(digest, config.receiver_authorizer, [config.receiver])
                .map_err(|rejection| rejection.for_payer(config.payer))?,
        };
        if signature.len() > signature::SIGNATURE_BYTES_MAX {
            return Err(reject(Reason::RefundSimulation));
        }
        let is_by_key = signature::signer(&digest, &signature) == Some(config.receiver_authorizer);
        let signature = if is_by_key { signature::with_contract_v(&signature) } else { signature };
        network.channel_config_cache.insert(channel, config.clone(), network.clock.mono_ms());
        let chain = network.contracts.chain;
        Ok(Self { chain, config, channel, amount, nonce, digest, signature, is_by_key, claims })
    }

    fn reject(&self, reason: Reason) -> Rejection {
        Rejection::from(reason).for_payer(self.config.payer)
    }

    async fn check_at(
        &self,
        network: &NetworkContext,
        priority: Priority,
    ) -> Result<VerifiedJob, VerifyError> {
        let job = self.job(network, priority).await?;
        let job = Job::Refund(Box::new(job));
        let gas = sent_transaction::check(network, &job, Reason::RefundSimulation).await?;
        Ok(VerifiedJob { job, is_done: false, extra: None, balance: U256::ZERO, gas })
    }

    async fn job(
        &self,
        network: &NetworkContext,
        priority: Priority,
    ) -> Result<ChannelRefund, VerifyError> {
        let claims = match &self.claims {
            Some(claims) => Some(claims.check(network, priority).await?),
            None => None,
        };
        let (rows, claim_signature, claims_run_code) = claims.map_or_else(
            || (Vec::new(), Bytes::new(), false),
            |claims| (claims.rows, claims.signature, claims.runs_foreign_code),
        );
        let mut job = ChannelRefund {
            chain: self.chain,
            config: self.config.clone(),
            channel: self.channel,
            amount: self.amount,
            nonce: self.nonce,
            signature: self.signature.clone(),
            rows,
            claim_signature,
            digest: self.digest,
            runs_foreign_code: false,
            state_before: ChannelState::default(),
        };
        let mut calls = state_reads::calls(&network.contracts, self.channel).to_vec();
        calls.push(job.call(&network.contracts));
        let is_trusted =
            self.is_by_key && !claims_run_code && network.trusts_token(self.config.token);
        let rows = u64::try_from(job.rows.len()).unwrap_or(u64::MAX);
        let gas = UNTRUSTED_CALL_GAS.saturating_add(ROW_GAS.saturating_mul(rows).saturating_mul(2));
        let wanted = Reads {
            code_accounts: vec![self.config.receiver_authorizer],
            calls,
            gas,
            exact_question: None,
            is_trusted,
        };
        let answers = reads::read(network, wanted, priority).await?;
        let has_code = answers.have_code.first().copied().unwrap_or_default();
        let mut outcomes = answers.outcomes.unwrap_or_default().into_iter();
        let pending = outcomes.as_slice().get(1).and_then(state_reads::pending_withdrawal);
        let state = state_reads::read(outcomes.by_ref().take(state_reads::CALL_COUNT));
        let state = state.ok_or_else(|| self.reject(Reason::RefundSimulation))?;
        let revert = outcomes.next().unwrap_or(CallOutcome::Reverted(Bytes::new())).revert_data();
        if state.balance == 0 {
            return Err(self.reject(Reason::ChannelNotFound).into());
        }
        if state.refund_nonce != self.nonce {
            let why =
                format!("The next refund of this channel has the nonce {}.", state.refund_nonce);
            let rejection = Rejection::with_message(Reason::RefundNonce, why);
            return Err(rejection.for_payer(self.config.payer).into());
        }
        if !has_code && !self.is_by_key {
            let why = "The signature of the receiver's authorizer does not match the refund.";
            let rejection = Rejection::with_message(Reason::RefundSimulation, why);
            return Err(rejection.for_payer(self.config.payer).into());
        }
        job.state_before = state;
        if state.balance <= job.total_claimed() {
            return Err(self.reject(Reason::RefundNoBalance).into());
        }
        if let Some(revert) = revert {
            return Err(self.reject(Reason::RefundSimulation).with_revert(&revert).into());
        }
        if pending.is_some_and(|pending| job.value().amount >= U256::from(pending)) {
            job.state_before.withdraw_requested_at = 0;
        }
        job.runs_foreign_code = has_code || claims_run_code;
        Ok(job)
    }
}

/// Checks again whether a verified refund can be carried out.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_again(
    network: &NetworkContext,
    job: &ChannelRefund,
) -> Result<(), VerifyError> {
    let claims = job.rows.iter().map(|row| row.claim.clone()).collect::<Vec<_>>();
    let claims = if claims.is_empty() {
        None
    } else {
        let signature = Some(job.claim_signature.clone());
        Some(CheckedClaims::read(network, claims, signature, USE_OF_SIGNED_CLAIMS)?)
    };
    let proposal = RefundProposal {
        chain: job.chain,
        config: job.config.clone(),
        channel: job.channel,
        amount: job.amount,
        nonce: job.nonce,
        digest: job.digest,
        signature: job.signature.clone(),
        is_by_key: signature::signer(&job.digest, &job.signature)
            == Some(job.config.receiver_authorizer),
        claims,
    };
    proposal.job(network, Priority::Batched).await.map(|_job| ())
}

impl Proposal for RefundProposal {
    fn key(&self) -> JobKey {
        JobKey::of_refund(self.chain, self.channel, self.nonce)
    }

    fn payer(&self) -> Option<Address> {
        Some(self.config.payer)
    }

    fn payees(&self) -> Vec<Address> {
        let claimed = self.claims.iter().flat_map(CheckedClaims::receivers);
        claimed.chain([self.config.receiver]).collect()
    }

    fn gas_min(&self) -> u64 {
        transaction::gas_min(GAS)
    }

    fn is_same_job(&self, job: &Job) -> bool {
        let Job::Refund(known) = job else { return false };
        known.digest == self.digest
            && known.signature == self.signature
            && match &self.claims {
                None => known.rows.is_empty(),
                Some(claims) => claims.have_same_claims(&known.rows),
            }
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        priority: Priority,
    ) -> BoxFuture<'a, Result<VerifiedJob, VerifyError>> {
        Box::pin(self.check_at(network, priority))
    }
}
