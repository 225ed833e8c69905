//! Reads and checks requests to claim.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::ports::BoxFuture;
use bursar_core::networks::ChainId;
use bursar_x402::channel::IBatchSettlement;
use bursar_x402::channel::payload::{ClaimRequest, ClaimRow};

use crate::batch::claim::{self, BASE_GAS, ChannelClaim, ROW_GAS, Row};
use crate::batch::permission::{ClaimSignature, Permission};
use crate::batch::terms::{self, VoucherProof};
use crate::contract_call::ContractCall;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, CallOutcome, Reads, TRUSTED_CALL_GAS, UNTRUSTED_CALL_GAS};
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;
use crate::scheme::Proposal;
use crate::sent_transaction;
use crate::signature::{self, SIGNATURE_BYTES_MAX};
use crate::transaction;
use crate::verify::{VerifiedJob, VerifyError};

/// Maximum number of rows, the default of official servers. A transaction has no room for more.
const ROWS_MAX: usize = 100;

/// Maximum length of a batch's call data in bytes, without the parts that all batches share.
const CALL_BYTES_MAX: usize = 110_000;

/// A batch of claims that was read from a request.
#[derive(Debug)]
pub(super) struct ClaimProposal {
    chain: ChainId,
    pub(super) batch: CheckedClaims,
}

/// Claims whose signatures are checked as far as possible without a node.
#[derive(Debug)]
pub(super) struct CheckedClaims {
    rows: Vec<(B256, ClaimRow, VoucherProof)>,
    authorizer: Address,
    digest: B256,
    signature: Bytes,
    is_by_key: bool,
    /// Whether each row must raise the claimed amount: see [`ClaimSignature`].
    must_raise_claimed: bool,
}

/// The use for claims that are already signed.
pub(super) const USE_OF_SIGNED_CLAIMS: ClaimUse<'static> = ClaimUse::BeforeRefund(Permission::NONE);

/// The purpose of claims, which decides when the authorizer signs them, and its permission.
#[derive(Debug, Clone, Copy)]
pub(super) enum ClaimUse<'a> {
    Alone(Permission<'a>),
    /// The claims precede a refund, which takes the remaining balance.
    BeforeRefund(Permission<'a>),
}

impl CheckedClaims {
    /// Checks the rows of a batch and the signature of their authorizer. If the signature is missing and permitted,
    /// signs the rows as the authorizer. Asks no node.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn read(
        network: &NetworkContext,
        claims: Vec<ClaimRow>,
        signature: Option<Bytes>,
        claim_use: ClaimUse<'_>,
    ) -> Result<Self, Rejection> {
        let domain = terms::escrow_domain(network);
        let invalid = || Rejection::from(Reason::ClaimPayload);
        let authorizer = claims.first().ok_or_else(invalid)?.channel.receiver_authorizer;
        if claims.len() > ROWS_MAX {
            return Err(invalid());
        }
        // Most nodes limit a transaction to 128 KiB.
        let lengths = claims.iter().map(|row| row.signature.len());
        let longest = lengths.chain(signature.iter().map(|signed| signed.len())).max();
        if claim::rows_bytes_max(claims.iter()) > CALL_BYTES_MAX
            || longest.is_some_and(|longest| longest > SIGNATURE_BYTES_MAX)
        {
            return Err(invalid());
        }
        let digest = domain.claim_batch_digest(&claims);
        let mut channels = BTreeSet::new();
        let mut rows = Vec::with_capacity(claims.len());
        for mut row in claims {
            let channel = domain.channel_id(&row.channel);
            if row.channel.receiver_authorizer != authorizer || !channels.insert(channel) {
                return Err(invalid());
            }
            if !network.config.accepts_token(row.channel.token) {
                return Err(Reason::AssetNotServed.into());
            }
            if row.total_claimed > row.max_claimable {
                let why = "A row claims more than its voucher allows.";
                return Err(Rejection::with_message(Reason::ClaimSimulation, why));
            }
            let signed = domain.voucher_digest(channel, row.max_claimable);
            let proof = terms::check_voucher(&row.channel, signed, &row.signature)?;
            if proof == VoucherProof::Key {
                row.signature = signature::with_contract_v(&row.signature);
            }
            network.channel_config_cache.insert(
                channel,
                row.channel.clone(),
                network.clock.mono_ms(),
            );
            rows.push((channel, row, proof));
        }
        let receivers = rows.iter().map(|(_channel, row, _proof)| row.channel.receiver);
        let ClaimSignature { signature, must_raise_claimed: must_add } =
            match (signature, claim_use) {
                (Some(signature), _any) => ClaimSignature { signature, must_raise_claimed: false },
                (None, ClaimUse::Alone(permission)) => {
                    permission.sign_claims(digest, authorizer, receivers)?
                }
                (None, ClaimUse::BeforeRefund(permission)) => {
                    let signature = permission.sign(digest, authorizer, receivers)?;
                    ClaimSignature { signature, must_raise_claimed: false }
                }
            };
        let is_by_key = signature::signer(&digest, &signature) == Some(authorizer);
        let signature = if is_by_key { signature::with_contract_v(&signature) } else { signature };
        Ok(Self { rows, authorizer, digest, signature, is_by_key, must_raise_claimed: must_add })
    }

    /// Whether these claims are the claims of `rows`.
    pub(super) fn have_same_claims(&self, rows: &[Row]) -> bool {
        let own = self.rows.iter().map(|(_channel, row, _proof)| row);
        rows.iter().map(|row| &row.claim).eq(own)
    }

    pub(super) fn receivers(&self) -> Vec<Address> {
        self.rows.iter().map(|(_channel, row, _proof)| row.channel.receiver).collect()
    }

    /// Checks the claims against the chain. Returns the job, which may have nothing left to do.
    pub(super) async fn check(
        &self,
        network: &NetworkContext,
        priority: Priority,
    ) -> Result<ChannelClaim, VerifyError> {
        if self.must_raise_claimed {
            self.check_additions(network, priority).await?;
        }
        let contracts = &network.contracts;
        let domain = terms::escrow_domain(network);
        let claims = || self.rows.iter().map(|(_channel, row, _proof)| row);
        let claim_call = claim::claims_call(contracts, claims(), &self.signature);
        // The accounts whose code may run: the authorizer, and payers that sign their vouchers themselves.
        let payers = claims().filter(|row| row.channel.voucher_signer().may_be_contract());
        let payers: BTreeSet<Address> = payers.map(|row| row.channel.payer).collect();
        let codes: Vec<Address> = payers.into_iter().chain([self.authorizer]).collect();
        let mut calls: Vec<ContractCall> = self.channel_calls(contracts.escrow).collect();
        let asks_contracts: Vec<_> = self
            .rows
            .iter()
            .filter(|(_channel, row, _proof)| row.channel.voucher_signer().may_be_contract())
            .collect();
        for (channel, row, _proof) in &asks_contracts {
            let digest = domain.voucher_digest(*channel, row.max_claimable);
            calls.push(reads::signature_call(row.channel.payer, digest, row.signature.clone()));
        }
        calls.push(claim_call);
        let is_plain = asks_contracts.is_empty() && self.is_by_key;
        let rows = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        let gas = if is_plain { TRUSTED_CALL_GAS } else { UNTRUSTED_CALL_GAS };
        let gas = gas.max(BASE_GAS.saturating_add(ROW_GAS.saturating_mul(rows)).saturating_mul(2));
        let wanted = Reads {
            code_accounts: codes.clone(),
            calls,
            gas,
            exact_question: None,
            is_trusted: is_plain,
        };
        let answers = reads::read(network, wanted, priority).await?;
        let reject = |reason: Reason| VerifyError::from(reason);
        let has_code = |account: Address| {
            let found =
                codes.iter().zip(&answers.have_code).find(|(known, _code)| **known == account);
            found.is_some_and(|(_account, code)| *code)
        };
        let outcomes = answers.outcomes.ok_or_else(|| reject(Reason::ClaimSimulation))?;
        let mut outcomes = outcomes.into_iter();
        let mut next = || outcomes.next().unwrap_or(CallOutcome::Reverted(Bytes::new()));
        let mut checked = Vec::with_capacity(self.rows.len());
        for (channel, row, _proof) in &self.rows {
            let returned = next().returned_data().unwrap_or_default();
            let state = IBatchSettlement::channelsCall::abi_decode_returns_validate(&returned)
                .map_err(|_missing| reject(Reason::ClaimSimulation))?;
            if row.total_claimed > state.balance {
                return Err(reject(Reason::VoucherExceedsBalance));
            }
            let before = state.totalClaimed;
            checked.push(Row { channel: *channel, claim: row.clone(), claimed_before: before });
        }
        for (_channel, row, proof) in &asks_contracts {
            let accepted = reads::is_accepted(next().returned_data());
            let by_key = *proof == VoucherProof::Key;
            if !(if has_code(row.channel.payer) { accepted } else { by_key }) {
                return Err(reject(Reason::VoucherSignature));
            }
        }
        let revert = next().revert_data();
        let authorizer_code = has_code(self.authorizer);
        if !authorizer_code && !self.is_by_key {
            let why = "The signature of the receiver's authorizer does not match the claims.";
            return Err(Rejection::with_message(Reason::ClaimSimulation, why).into());
        }
        if let Some(revert) = revert {
            return Err(Rejection::from(Reason::ClaimSimulation).with_revert(&revert).into());
        }
        let mut payers = asks_contracts.iter().map(|(_channel, row, _proof)| row.channel.payer);
        let payer_code = payers.any(has_code);
        Ok(ChannelClaim {
            chain: contracts.chain,
            rows: checked,
            digest: self.digest,
            signature: self.signature.clone(),
            runs_foreign_code: authorizer_code || payer_code,
        })
    }
}

impl CheckedClaims {
    /// The calls that read the state of each row's channel.
    fn channel_calls(&self, escrow: Address) -> impl Iterator<Item = ContractCall> {
        self.rows.iter().map(move |(channel, _row, _proof)| ContractCall {
            to: escrow,
            data: IBatchSettlement::channelsCall { channelId: *channel }.abi_encode().into(),
        })
    }

    /// Checks that each row raises the claimed amount, before the authorizer's signature leaves this process.
    async fn check_additions(
        &self,
        network: &NetworkContext,
        priority: Priority,
    ) -> Result<(), VerifyError> {
        let wanted = Reads {
            code_accounts: Vec::new(),
            calls: self.channel_calls(network.contracts.escrow).collect(),
            gas: TRUSTED_CALL_GAS,
            exact_question: None,
            is_trusted: true,
        };
        let outcomes = reads::read(network, wanted, priority).await?.outcomes.unwrap_or_default();
        let mut outcomes = outcomes.into_iter();
        for (_channel, row, _proof) in &self.rows {
            let returned = outcomes.next().and_then(CallOutcome::returned_data).unwrap_or_default();
            let state = IBatchSettlement::channelsCall::abi_decode_returns_validate(&returned)
                .map_err(|_missing| VerifyError::from(Reason::ClaimSimulation))?;
            if row.total_claimed <= state.totalClaimed {
                let why = "A row adds nothing to what was already claimed: remove it, or send an API key that lists \
                           the receiver.";
                return Err(Rejection::with_message(Reason::VoucherBelowClaimed, why).into());
            }
        }
        Ok(())
    }
}

impl ClaimProposal {
    /// Reads a batch of claims from a request.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn read(
        network: &NetworkContext,
        request: ClaimRequest,
        requester: &Requester,
    ) -> Result<Self, Rejection> {
        let claim_use = ClaimUse::Alone(Permission::of(network, requester));
        let (claims, signature) = (request.claims, request.claim_signature);
        let batch = CheckedClaims::read(network, claims, signature, claim_use)?;
        Ok(Self { chain: network.contracts.chain, batch })
    }
}

/// Checks again whether a verified batch can be carried out. If it has nothing left to do, its rows were claimed by
/// another transaction.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_again(
    network: &NetworkContext,
    job: &ChannelClaim,
) -> Result<(), VerifyError> {
    let claims = job.rows.iter().map(|row| row.claim.clone()).collect();
    let batch =
        CheckedClaims::read(network, claims, Some(job.signature.clone()), USE_OF_SIGNED_CLAIMS)?;
    let now = batch.check(network, Priority::Batched).await?;
    if now.rows.iter().any(Row::raises_claimed) {
        Ok(())
    } else {
        Err(Reason::VoucherBelowClaimed.into())
    }
}

impl Proposal for ClaimProposal {
    fn key(&self) -> JobKey {
        JobKey::of_claim(self.chain, self.batch.digest)
    }

    fn payer(&self) -> Option<Address> {
        None
    }

    fn payees(&self) -> Vec<Address> {
        self.batch.receivers()
    }

    fn gas_min(&self) -> u64 {
        transaction::gas_min(BASE_GAS.saturating_add(ROW_GAS))
    }

    fn is_same_job(&self, job: &Job) -> bool {
        let Job::Claim(known) = job else { return false };
        known.signature == self.batch.signature && self.batch.have_same_claims(&known.rows)
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        priority: Priority,
    ) -> BoxFuture<'a, Result<VerifiedJob, VerifyError>> {
        Box::pin(async move {
            let claim = self.batch.check(network, priority).await?;
            let is_done = !claim.rows.iter().any(Row::raises_claimed);
            let job = Job::Claim(Box::new(claim));
            let gas = sent_transaction::check(network, &job, Reason::ClaimSimulation).await?;
            Ok(VerifiedJob { job, is_done, extra: None, balance: U256::ZERO, gas })
        })
    }
}
