//! Asks a node about a deposit and reads its answer, in one exchange.

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::ports::ChainFault;
use bursar_x402::channel::payload::DepositAuthorization;

use crate::batch::deposit::ChannelDeposit;
use crate::batch::state::ChannelState;
use crate::batch::state_reads;
use crate::batch::terms;
use crate::contract_call::ContractCall;
use crate::job::Job;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, CallOutcome, ReadAnswers, Reads, TRUSTED_CALL_GAS, UNTRUSTED_CALL_GAS};
use crate::sent_transaction;
use crate::transfer::eip3009;
use crate::transfer::erc20::IErc20;
use crate::transfer::permit2;
use crate::work::Work;

/// The facts that a node returned about a deposit.
pub(super) struct DepositFacts {
    pub(super) has_code: bool,
    pub(super) state: Option<ChannelState>,
    pub(super) payer_balance: Option<U256>,
    /// EIP-3009: whether the nonce is used. Permit2: the bitmap of its word.
    pub(super) nonce: Option<U256>,
    pub(super) allowance: Option<U256>,
    pub(super) accepts_voucher: Option<bool>,
    pub(super) accepts_authorization: Option<bool>,
    /// The revert data of the deposit; `None` if it succeeded.
    pub(super) failure: Option<Bytes>,
}

impl DepositFacts {
    /// Asks a node for all facts that the check of a deposit needs.
    ///
    /// # Errors
    /// No node answers.
    pub(super) async fn ask(
        network: &NetworkContext,
        job: &ChannelDeposit,
        priority: Priority,
    ) -> Result<Self, ChainFault> {
        let contracts = &network.contracts;
        let (payer, token) = (job.config.payer, job.config.token);
        let mut calls = state_reads::calls(contracts, job.channel).to_vec();
        let call = |to: Address, data: Vec<u8>| ContractCall { to, data: data.into() };
        calls.push(call(token, IErc20::balanceOfCall { owner: payer }.abi_encode()));
        let (nonce, spender) = match &job.authorization {
            DepositAuthorization::Eip3009(signed) => {
                let used = eip3009::nonce_call(token, payer, signed.nonce(job.channel));
                (used, contracts.erc3009_collector)
            }
            DepositAuthorization::Permit2(signed) => {
                (permit2::nonce_call(contracts, payer, signed.nonce), contracts.permit2)
            }
        };
        calls.push(nonce);
        calls.push(call(token, IErc20::allowanceCall { owner: payer, spender }.abi_encode()));
        let deploys = job.deployment.as_ref();
        calls.extend(
            deploys.map(|deploys| ContractCall { to: deploys.factory, data: deploys.data.clone() }),
        );
        if job.contract_payer {
            let ceiling = job.voucher.max_claimable;
            let voucher = terms::escrow_domain(network).voucher_digest(job.channel, ceiling);
            let signature = job.voucher.signature.clone();
            calls.push(reads::signature_call(payer, voucher, signature));
            calls.push(reads::signature_call(payer, job.digest, job.signature.clone()));
        }
        calls.push(job.call(contracts));
        let is_trusted = network.trusts_token(token) && !job.contract_payer;
        let exact = if job.contract_payer {
            let job = Job::Deposit(Box::new(job.clone()));
            sent_transaction::question(network, &job).map(|(question, _gas)| question)
        } else {
            None
        };
        let gas = if is_trusted { TRUSTED_CALL_GAS } else { UNTRUSTED_CALL_GAS };
        let wanted =
            Reads { code_accounts: vec![payer], calls, gas, exact_question: exact, is_trusted };
        let ReadAnswers { have_code: codes, outcomes, exact_revert } =
            reads::read(network, wanted, priority).await?;
        let has_code = codes.first().copied().unwrap_or_default();
        let mut outcomes = outcomes.unwrap_or_default().into_iter();
        let state = state_reads::read(outcomes.by_ref().take(state_reads::CALL_COUNT));
        let mut next = || outcomes.next().unwrap_or(CallOutcome::Reverted(Bytes::new()));
        let mut number = || next().returned_data().as_ref().and_then(reads::number);
        let (payer_balance, nonce, allowance) = (number(), number(), number());
        if deploys.is_some() {
            // Ignores the outcome of the deployment, which fails if the wallet is already deployed.
            let _done = next();
        }
        let mut accepts = || job.contract_payer.then(|| reads::is_accepted(next().returned_data()));
        let (accepts_voucher, accepts_authorization) = (accepts(), accepts());
        let failure = next().revert_data().or(exact_revert);
        Ok(Self {
            has_code,
            state,
            payer_balance,
            nonce,
            allowance,
            accepts_voucher,
            accepts_authorization,
            failure,
        })
    }
}
