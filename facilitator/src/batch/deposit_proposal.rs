//! Reads and checks requests to deposit.

use alloy_primitives::{Address, B256, U256};
use bursar_chain::ports::BoxFuture;
use bursar_core::networks::ChainId;
use bursar_x402::channel::payload::{Deposit, DepositAuthorization, SignedVoucher};
use bursar_x402::channel::{ChannelConfig, DepositTerms};
use bursar_x402::settlement::SettlementRequest;

use crate::batch::deposit::{self, ChannelDeposit};
use crate::batch::deposit_facts::DepositFacts;
use crate::batch::state::ChannelState;
use crate::batch::state_reads;
use crate::batch::terms::{self, VoucherProof};
use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::Sponsoring;
use crate::reason::{Reason, Rejection};
use crate::scheme::Proposal;
use crate::signature::{self, UnwrappedSignature};
use crate::transaction;
use crate::transfer::approval::{AllowanceRule, Approval, NeededAllowance};
use crate::transfer::check::{claimed_separator, names_other_domain, token_separator};
use crate::transfer::permit2;
use crate::transfer::sponsoring::{self, AllowanceNeed, SponsoringReasons};
use crate::verify::{VerifiedJob, VerifyError};

/// Gas limit of the cheapest deposit.
const DEPOSIT_GAS_MIN: u64 = 150_000;

/// A deposit that was read from a request and matches its requirements.
#[derive(Debug)]
pub(super) struct DepositProposal {
    chain: ChainId,
    config: ChannelConfig,
    channel: B256,
    amount: u128,
    voucher: SignedVoucher,
    voucher_proof: VoucherProof,
    authorization: DepositAuthorization,
    signature: UnwrappedSignature,
    sponsoring: Option<Sponsoring>,
    claimed: Option<B256>,
}

impl DepositProposal {
    /// Reads a deposit and compares it with the requirements.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn read(
        network: &NetworkContext,
        request: &SettlementRequest,
        payload: Deposit,
    ) -> Result<Self, Rejection> {
        let requirements = &request.requirements;
        let Deposit { config, voucher, amount, authorization } = payload;
        let reject = |reason: Reason| Rejection::from(reason).for_payer(config.payer);
        let channel = terms::check_channel(network, &config, &voucher, requirements)?;
        let signed = terms::escrow_domain(network).voucher_digest(channel, voucher.max_claimable);
        let voucher_proof =
            terms::check_voucher(&config, signed, &voucher.signature).map_err(reject)?;
        let hinted = requirements.extra.transfer_method.as_deref();
        let sent = match &authorization {
            DepositAuthorization::Eip3009(_signed) if hinted == Some("permit2") => {
                return Err(reject(Reason::DepositPermit2Missing));
            }
            DepositAuthorization::Permit2(_signed) if hinted == Some("eip3009") => {
                return Err(reject(Reason::DepositEip3009Missing));
            }
            DepositAuthorization::Eip3009(signed) => &signed.signature,
            DepositAuthorization::Permit2(signed) => {
                if signed.spender != network.contracts.permit2_collector {
                    return Err(reject(Reason::DepositSpender));
                }
                if signed.token != config.token {
                    return Err(reject(Reason::ChannelToken));
                }
                if signed.amount != U256::from(amount) {
                    return Err(reject(Reason::DepositAmount));
                }
                if signed.channel_id != channel {
                    return Err(reject(Reason::ChannelIdMismatch));
                }
                if signed.from != config.payer {
                    return Err(reject(Reason::InvalidSignature));
                }
                &signed.signature
            }
        };
        let signature = signature::unwrap(sent).ok_or_else(|| reject(Reason::InvalidSignature))?;
        let sponsoring = match &authorization {
            DepositAuthorization::Eip3009(_signed) => None,
            DepositAuthorization::Permit2(signed) => {
                let (payer, token) = (config.payer, config.token);
                let needed = NeededAllowance { payer, token, amount: signed.amount };
                let authorized = AllowanceNeed { needed, deadline: signed.deadline };
                let codes = SponsoringReasons {
                    permit_amount: Reason::DepositPermitAmount,
                    no_approvals: Some(Reason::DepositApprovalOff),
                };
                sponsoring::read(network, &request.extensions, &authorized, codes)?
            }
        };
        let chain = network.contracts.chain;
        if matches!(authorization, DepositAuthorization::Eip3009(_))
            && names_other_domain(chain, requirements)
        {
            return Err(reject(Reason::NameMismatch));
        }
        let claimed = claimed_separator(chain, requirements);
        Ok(Self {
            chain,
            config,
            channel,
            amount,
            voucher,
            voucher_proof,
            authorization,
            signature,
            sponsoring,
            claimed,
        })
    }

    fn reject(&self, reason: Reason) -> Rejection {
        Rejection::from(reason).for_payer(self.config.payer)
    }

    /// The digest of the authorization (EIP-712).
    async fn digest(&self, network: &NetworkContext) -> Result<B256, VerifyError> {
        match &self.authorization {
            DepositAuthorization::Eip3009(signed) => {
                let separator = token_separator(network, self.config.token, self.claimed).await?;
                let separator = separator.ok_or_else(|| self.reject(Reason::MissingDomain))?;
                let terms = DepositTerms {
                    payer: self.config.payer,
                    collector: network.contracts.erc3009_collector,
                    channel_id: self.channel,
                    amount: self.amount,
                };
                Ok(signed.digest(separator, &terms))
            }
            DepositAuthorization::Permit2(signed) => {
                Ok(signed.digest(permit2::separator(&network.contracts)))
            }
        }
    }

    async fn check_at(
        &self,
        network: &NetworkContext,
        priority: Priority,
    ) -> Result<VerifiedJob, VerifyError> {
        let digest = self.digest(network).await?;
        let payer = self.config.payer;
        let is_by_key = signature::signer(&digest, &self.signature.inner) == Some(payer);
        let known_code = network.code_cache.get(&payer, network.clock.mono_ms());
        let may_be_contract = self.signature.deployment.is_some() || known_code != Some(false);
        if !is_by_key && !may_be_contract {
            return Err(self.reject(Reason::InvalidSignature).into());
        }
        let mut job = ChannelDeposit {
            chain: self.chain,
            config: self.config.clone(),
            channel: self.channel,
            amount: self.amount,
            authorization: self.authorization.clone(),
            voucher: self.voucher.clone(),
            digest,
            signature: self.signature.inner.clone(),
            // A payer that signed with its key needs no deployment.
            deployment: self.signature.deployment.clone().filter(|_planned| !is_by_key),
            contract_payer: !is_by_key || known_code == Some(true),
            state_before: ChannelState::default(),
            sponsoring: self.sponsoring.clone(),
        };
        if !job.contract_payer {
            job.signature = signature::with_contract_v(&job.signature);
        }
        let mut facts = DepositFacts::ask(network, &job, priority).await?;
        if facts.has_code && (job.deployment.is_some() || !job.contract_payer) {
            // A deployed wallet is not deployed again, and a payer with code is simulated as a contract.
            (job.deployment, job.contract_payer) = (None, true);
            job.signature = self.signature.inner.clone();
            facts = DepositFacts::ask(network, &job, priority).await?;
        }
        if job.deployment.is_none() {
            network.code_cache.insert(payer, facts.has_code, network.clock.mono_ms());
        }
        job.contract_payer = facts.has_code || job.deployment.is_some();
        if !facts.has_code && job.deployment.is_none() && !is_by_key {
            return Err(self.reject(Reason::InvalidSignature).into());
        }
        let rule = AllowanceRule::MayFollow;
        job.state_before = self.check_facts(&job, &facts, is_by_key, rule)?;
        if facts.allowance.is_some_and(|allowance| allowance >= U256::from(self.amount)) {
            // The allowance suffices, and a permit would overwrite it.
            job.sponsoring = None;
        }
        if facts.failure.is_some()
            && let Some(approval) = Approval::of(&network.contracts, &job)
        {
            // Only the allowance is missing, and the approval grants it.
            approval.check(network).await?;
        }
        let extra = Some(job.state_before.to_json(self.channel));
        let job = Job::Deposit(Box::new(job));
        let cap = network.config.gas_cap_contract;
        let gas = transaction::gas(&network.contracts, &[&job], cap)
            .ok_or_else(|| self.reject(Reason::DepositSimulation))?;
        let balance = facts.payer_balance.unwrap_or_default();
        Ok(VerifiedJob { job, is_done: false, extra, balance, gas })
    }

    /// Checks a deposit against the chain's answers. Returns the state of the channel.
    fn check_facts(
        &self,
        job: &ChannelDeposit,
        facts: &DepositFacts,
        is_by_key: bool,
        rule: AllowanceRule,
    ) -> Result<ChannelState, VerifyError> {
        let reject = |reason: Reason| VerifyError::from(self.reject(reason));
        let Some(state) = facts.state else { return Err(reject(Reason::DepositSimulation)) };
        let is_unsigned = !is_by_key && facts.accepts_authorization != Some(true);
        let voucher_by_key = self.voucher_proof == VoucherProof::Key;
        let payer_signs = self.config.voucher_signer().may_be_contract();
        let is_voucher_signed = if payer_signs && job.contract_payer {
            facts.accepts_voucher == Some(true)
        } else {
            voucher_by_key
        };
        if let Some(revert) = &facts.failure {
            // A caller without a valid signature must not learn the state of the authorization.
            if is_unsigned && job.contract_payer {
                return Err(reject(Reason::InvalidSignature));
            }
            let reason = self.failure_reason(facts);
            let approval = job.sponsoring.as_ref().and_then(Sponsoring::approval);
            // For an account with code, Permit2 calls that code even if the account's key signed.
            let is_confirmed = !job.contract_payer || facts.accepts_authorization == Some(true);
            let is_approved_first = reason == Reason::DepositAllowance
                && rule == AllowanceRule::MayFollow
                && approval.is_some()
                && is_confirmed;
            if !is_approved_first {
                let rejection = self.reject(reason);
                let rejection =
                    if revert.is_empty() { rejection } else { rejection.with_revert(revert) };
                return Err(rejection.into());
            }
        }
        if !is_voucher_signed {
            return Err(reject(Reason::VoucherSignature));
        }
        let after = state.balance.checked_add(self.amount);
        if after.is_none_or(|after| self.voucher.max_claimable > after) {
            return Err(reject(Reason::VoucherExceedsBalance));
        }
        if self.voucher.max_claimable <= state.total_claimed {
            return Err(reject(Reason::VoucherBelowClaimed));
        }
        Ok(state)
    }

    /// Returns the reason why a deposit would fail.
    fn failure_reason(&self, facts: &DepositFacts) -> Reason {
        let amount = U256::from(self.amount);
        let is_underfunded = facts.payer_balance.is_some_and(|balance| balance < amount);
        match &self.authorization {
            DepositAuthorization::Eip3009(_signed) => match facts.nonce {
                Some(used) if !used.is_zero() => Reason::NonceUsed,
                _any if is_underfunded => Reason::InsufficientBalance,
                None => Reason::NotEip3009,
                Some(_free) => Reason::DepositSimulation,
            },
            DepositAuthorization::Permit2(signed) => match (facts.nonce, facts.allowance) {
                (Some(bitmap), _any) if permit2::is_nonce_used(bitmap, signed.nonce) => {
                    Reason::Permit2Nonce
                }
                _any if is_underfunded => Reason::InsufficientBalance,
                (Some(_free), Some(allowance)) if allowance < amount => Reason::DepositAllowance,
                (Some(_free), _enough) => Reason::DepositSimulation,
                (None, _any) => Reason::Permit2Proxy,
            },
        }
    }
}

/// Checks again whether a verified deposit can be carried out.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_again(
    network: &NetworkContext,
    job: &ChannelDeposit,
    rule: AllowanceRule,
) -> Result<(), VerifyError> {
    deposit::window_of(&job.authorization)
        .check(network.now_seconds())
        .map_err(|reason| Rejection::from(reason).for_payer(job.config.payer))?;
    check_on_chain(network, job, rule).await
}

/// Checks again whether the chain would carry out a verified deposit, even if the deposit has expired.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_on_chain(
    network: &NetworkContext,
    job: &ChannelDeposit,
    rule: AllowanceRule,
) -> Result<(), VerifyError> {
    let proposal = DepositProposal {
        chain: job.chain,
        config: job.config.clone(),
        channel: job.channel,
        amount: job.amount,
        voucher: job.voucher.clone(),
        voucher_proof: VoucherProof::Key,
        authorization: job.authorization.clone(),
        signature: UnwrappedSignature {
            inner: job.signature.clone(),
            deployment: job.deployment.clone(),
        },
        sponsoring: job.sponsoring.clone(),
        claimed: None,
    };
    let facts = DepositFacts::ask(network, job, Priority::Batched).await?;
    if facts.has_code && !job.contract_payer {
        return Err(proposal.reject(Reason::DepositTransactionFailed).into());
    }
    if facts.failure.is_none() {
        return Ok(());
    }
    proposal.check_facts(job, &facts, true, rule).map(|_state| ())
}

impl Proposal for DepositProposal {
    fn key(&self) -> JobKey {
        deposit::key_of(self.chain, &self.config, self.channel, &self.authorization)
    }

    fn payer(&self) -> Option<Address> {
        Some(self.config.payer)
    }

    fn payees(&self) -> Vec<Address> {
        vec![self.config.receiver]
    }

    fn gas_min(&self) -> u64 {
        transaction::gas_min(DEPOSIT_GAS_MIN)
    }

    fn admit(&self, network: &NetworkContext) -> Result<(), Rejection> {
        let least = network.config.min_deposit.get(&self.config.token).copied().unwrap_or_default();
        if self.amount == 0 || U256::from(self.amount) < least {
            return Err(self.reject(Reason::DepositBelowMinimum));
        }
        deposit::window_of(&self.authorization)
            .check(network.now_seconds())
            .map_err(|reason| self.reject(reason))?;
        if let Some(deployment) = &self.signature.deployment
            && !network.config.eip6492_factories.contains(&deployment.factory)
        {
            return Err(self.reject(Reason::FactoryNotAllowed));
        }
        Ok(())
    }

    fn is_same_job(&self, job: &Job) -> bool {
        let Job::Deposit(known) = job else { return false };
        let inner = &self.signature.inner;
        let is_signed = *inner == known.signature
            || signature::with_contract_v(inner) == known.signature
            || signature::signer(&known.digest, inner) == Some(known.config.payer);
        is_signed
            && self.voucher == known.voucher
            && self.channel == known.channel
            && self.amount == known.amount
            && is_same_authorization(&self.authorization, &known.authorization)
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        priority: Priority,
    ) -> BoxFuture<'a, Result<VerifiedJob, VerifyError>> {
        Box::pin(self.check_at(network, priority))
    }

    fn signed_by_key<'a>(
        &'a self,
        network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<Option<Job>, VerifyError>> {
        Box::pin(async move {
            let digest = self.digest(network).await?;
            let signature = signature::with_contract_v(&self.signature.inner);
            if signature::signer(&digest, &signature) != Some(self.config.payer) {
                return Ok(None);
            }
            let outcomes = state_reads::ask(network, self.channel, Priority::Batched).await?;
            let before = state_reads::read(outcomes);
            // The voucher pays the merchant, so it must be valid and covered by the channel, too.
            let ceiling = self.voucher.max_claimable;
            let is_good = |state: &ChannelState| {
                self.voucher_proof == VoucherProof::Key
                    && ceiling <= state.balance
                    && ceiling > state.total_claimed
            };
            if !before.as_ref().is_some_and(is_good) {
                return Ok(None);
            }
            Ok(Some(Job::Deposit(Box::new(ChannelDeposit {
                chain: self.chain,
                config: self.config.clone(),
                channel: self.channel,
                amount: self.amount,
                authorization: self.authorization.clone(),
                voucher: self.voucher.clone(),
                digest,
                signature,
                deployment: None,
                contract_payer: false,
                state_before: before.unwrap_or_default(),
                sponsoring: self.sponsoring.clone(),
            }))))
        })
    }
}

/// Whether two authorizations have the same terms, regardless of their signatures.
fn is_same_authorization(one: &DepositAuthorization, other: &DepositAuthorization) -> bool {
    match (one, other) {
        (DepositAuthorization::Eip3009(one), DepositAuthorization::Eip3009(other)) => {
            (one.valid_after, one.valid_before, one.salt)
                == (other.valid_after, other.valid_before, other.salt)
        }
        (DepositAuthorization::Permit2(one), DepositAuthorization::Permit2(other)) => {
            (one.nonce, one.deadline, one.amount, one.token)
                == (other.nonce, other.deadline, other.amount, other.token)
        }
        (DepositAuthorization::Eip3009(_), DepositAuthorization::Permit2(_))
        | (DepositAuthorization::Permit2(_), DepositAuthorization::Eip3009(_)) => false,
    }
}
