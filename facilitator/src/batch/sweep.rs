//! Sweeps: the escrow pays out everything that a receiver has claimed in a token.

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::{SolCall, SolEvent};
use bursar_chain::ports::BoxFuture;
use bursar_core::networks::ChainId;
use bursar_x402::channel::IBatchSettlement;
use bursar_x402::channel::payload::SettleRequest;
use serde::{Deserialize, Serialize};

use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::mined_transaction::MinedTransaction;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::Deployment;
use crate::reads::{self, Reads, UNTRUSTED_CALL_GAS};
use crate::reason::{Reason, Rejection};
use crate::scheme::Proposal;
use crate::transaction;
use crate::verify::{Verified, VerifyError};
use crate::work::{Content, Effect, SenderRule, SettlementEvent, TokenAmount, Work};

/// Gas limit of a payout, for any token.
const GAS: u64 = 180_000;

/// A payout to a receiver. Any account may send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelSweep {
    pub chain: ChainId,
    pub receiver: Address,
    pub token: Address,
    /// What the receiver had claimed in all, and what was paid out of it, when the payout was checked.
    pub claimed: u128,
    pub settled: u128,
}

impl Work for ChannelSweep {
    fn chain(&self) -> ChainId {
        self.chain
    }

    fn key(&self) -> JobKey {
        JobKey::of_sweep(self.chain, self.receiver, self.token, self.claimed)
    }

    fn digest(&self) -> B256 {
        keccak256(self.key().0)
    }

    fn account(&self) -> Address {
        self.receiver
    }

    fn payer(&self) -> Option<Address> {
        None
    }

    fn moves(&self) -> TokenAmount {
        TokenAmount { token: self.token, amount: U256::ZERO }
    }

    fn value(&self) -> TokenAmount {
        let amount = U256::from(self.claimed.saturating_sub(self.settled));
        TokenAmount { token: self.token, amount }
    }

    fn sender(&self) -> SenderRule {
        SenderRule::Any
    }

    fn runs_foreign_code(&self) -> bool {
        false
    }

    fn deployment(&self) -> Option<&Deployment> {
        None
    }

    fn call(&self, contracts: &Contracts) -> ContractCall {
        let call = IBatchSettlement::settleCall { receiver: self.receiver, token: self.token };
        ContractCall { to: contracts.escrow, data: call.abi_encode().into() }
    }

    fn gas(&self) -> u64 {
        GAS
    }

    fn extra_bytes(&self) -> usize {
        0
    }

    fn expires(&self) -> Option<U256> {
        None
    }

    fn check_time(&self, _now_seconds: u64) -> Result<(), Reason> {
        Ok(())
    }

    /// Any payout to the receiver counts, also one that a stranger sent.
    fn effect(&self, contracts: &Contracts, mined: &MinedTransaction<'_>) -> Option<Effect> {
        let event = self.settlement_event(contracts);
        mined.logs.iter().find_map(|log| {
            let is_own = log.address == event.contract
                && log.topics.first() == Some(&event.event)
                && log.topics.get(1..3) == Some(event.indexed.as_slice());
            let topics = log.topics.iter().copied();
            let settled = is_own.then(|| {
                IBatchSettlement::Settled::decode_raw_log_validate(topics, &log.data).ok()
            });
            Some(Effect { amount: Some(settled??.amount), balance: None })
        })
    }

    fn settlement_event(&self, contracts: &Contracts) -> SettlementEvent {
        SettlementEvent {
            contract: contracts.escrow,
            event: IBatchSettlement::Settled::SIGNATURE_HASH,
            indexed: vec![self.receiver.into_word(), self.token.into_word()],
            // An earlier payout emits the same event. So it is searched for only once the money is known to be paid out.
            names_nonce: false,
        }
    }

    fn failed_reason(&self) -> Reason {
        Reason::SweepSimulation
    }

    fn content(&self, effect: &Effect) -> Content {
        Content { amount: effect.amount.map(U256::from), extra: None }
    }
}

/// A payout that a request proposes. Its key needs what the receiver has claimed, so it is read first.
#[derive(Debug)]
pub(super) struct SweepProposal {
    sweep: ChannelSweep,
}

impl SweepProposal {
    /// Reads what the receiver has claimed.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub(super) async fn read(
        network: &NetworkContext,
        request: SettleRequest,
    ) -> Result<Self, VerifyError> {
        if !network.config.takes_token(request.token) {
            return Err(Reason::AssetNotServed.into());
        }
        let (sweep, _revert) = look_up(network, request.receiver, request.token).await?;
        Ok(Self { sweep })
    }
}

/// Reads the payout that is possible now, and the revert data if it would fail.
async fn look_up(
    network: &NetworkContext,
    receiver: Address,
    token: Address,
) -> Result<(ChannelSweep, Option<alloy_primitives::Bytes>), VerifyError> {
    let totals = IBatchSettlement::receiversCall { receiver, token }.abi_encode();
    let sweep =
        ChannelSweep { chain: network.contracts.chain, receiver, token, claimed: 0, settled: 0 };
    let wanted = Reads {
        calls: vec![
            ContractCall { to: network.contracts.escrow, data: totals.into() },
            sweep.call(&network.contracts),
        ],
        gas: UNTRUSTED_CALL_GAS,
        is_trusted: network.trusts_token(token),
        ..Reads::default()
    };
    let answers = reads::read(network, wanted, Priority::Batched).await?;
    let mut outcomes = answers.outcomes.unwrap_or_default().into_iter();
    let totals = outcomes.next().and_then(|outcome| outcome.returned_data()).unwrap_or_default();
    let totals = IBatchSettlement::receiversCall::abi_decode_returns_validate(&totals)
        .map_err(|_missing| VerifyError::from(Reason::SweepSimulation))?;
    let revert = outcomes.next().and_then(|outcome| outcome.revert_data());
    let (claimed, settled) = (totals.totalClaimed, totals.totalSettled);
    Ok((ChannelSweep { claimed, settled, ..sweep }, revert))
}

/// Checks again whether a verified payout can be carried out. If there is nothing left to pay out, somebody else paid
/// it out.
///
/// # Errors
/// [`VerifyError`].
pub(super) async fn check_again(
    network: &NetworkContext,
    sweep: &ChannelSweep,
) -> Result<(), VerifyError> {
    let (now, revert) = look_up(network, sweep.receiver, sweep.token).await?;
    if now.settled >= sweep.claimed {
        return Err(Reason::NothingToSettle.into());
    }
    if revert.is_some() { Err(Reason::SweepSimulation.into()) } else { Ok(()) }
}

impl Proposal for SweepProposal {
    fn key(&self) -> JobKey {
        self.sweep.key()
    }

    fn preceding_key(&self) -> Option<JobKey> {
        None
    }

    fn payer(&self) -> Option<Address> {
        None
    }

    fn payees(&self) -> Vec<Address> {
        vec![self.sweep.receiver]
    }

    fn needs_transaction(&self) -> bool {
        true
    }

    fn sender(&self) -> SenderRule {
        SenderRule::Any
    }

    fn least_gas(&self) -> u64 {
        transaction::least_gas(GAS)
    }

    fn admit(&self, _network: &NetworkContext) -> Result<(), Rejection> {
        if self.sweep.claimed <= self.sweep.settled {
            return Err(Reason::NothingToSettle.into());
        }
        Ok(())
    }

    fn is_same(&self, job: &Job) -> bool {
        matches!(job, Job::Sweep(known) if known.key() == self.key())
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        _priority: Priority,
    ) -> BoxFuture<'a, Result<Verified, VerifyError>> {
        Box::pin(async move {
            check_again(network, &self.sweep).await?;
            let job = Job::Sweep(self.sweep);
            let gas = transaction::gas(&network.contracts, &[&job], 0).unwrap_or(GAS);
            Ok(Verified { job, is_done: false, extra: None, balance: U256::ZERO, gas })
        })
    }

    fn signed_by_key<'a>(
        &'a self,
        _network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<Option<Job>, VerifyError>> {
        // No signature is needed, and the chain is public.
        Box::pin(std::future::ready(Ok(Some(Job::Sweep(self.sweep)))))
    }
}
