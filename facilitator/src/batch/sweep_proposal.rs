//! Reads and checks requests to pay out claimed money.

use alloy_primitives::{Address, U256};
use alloy_sol_types::SolCall;
use bursar_chain::ports::BoxFuture;
use bursar_x402::channel::IBatchSettlement;
use bursar_x402::channel::payload::SettleRequest;

use crate::batch::sweep::{ChannelSweep, GAS};
use crate::contract_call::ContractCall;
use crate::job::Job;
use crate::job_key::JobKey;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, Reads, UNTRUSTED_CALL_GAS};
use crate::reason::{Reason, Rejection};
use crate::scheme::Proposal;
use crate::sent_transaction;
use crate::transaction;
use crate::verify::{VerifiedJob, VerifyError};
use crate::work::Work;

/// A payout that a request proposes. The claimed total is part of the payout's key, so the total is read first.
#[derive(Debug)]
pub(super) struct SweepProposal {
    sweep: ChannelSweep,
    /// Whether the payout would fail.
    would_fail: bool,
}

impl SweepProposal {
    /// Reads the amount that the receiver has claimed.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub(super) async fn read(
        network: &NetworkContext,
        request: SettleRequest,
    ) -> Result<Self, VerifyError> {
        if !network.config.accepts_token(request.token) {
            return Err(Reason::AssetNotServed.into());
        }
        let (sweep, would_fail) = look_up(network, request.receiver, request.token).await?;
        Ok(Self { sweep, would_fail })
    }
}

/// Reads the payout that is possible now, and whether it would fail.
async fn look_up(
    network: &NetworkContext,
    receiver: Address,
    token: Address,
) -> Result<(ChannelSweep, bool), VerifyError> {
    let totals = IBatchSettlement::receiversCall { receiver, token }.abi_encode();
    let sweep =
        ChannelSweep { chain: network.contracts.chain, receiver, token, claimed: 0, paid_out: 0 };
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
    let would_fail = outcomes.next().is_some_and(|outcome| outcome.revert_data().is_some());
    let (claimed, settled) = (totals.totalClaimed, totals.totalSettled);
    Ok((ChannelSweep { claimed, paid_out: settled, ..sweep }, would_fail))
}

/// Checks again whether a verified payout can be carried out. If there is nothing left to pay out, another
/// sender paid it out.
///
/// # Errors
/// [`VerifyError`].
pub(crate) async fn check_again(
    network: &NetworkContext,
    sweep: &ChannelSweep,
) -> Result<(), VerifyError> {
    let (now, would_fail) = look_up(network, sweep.receiver, sweep.token).await?;
    if now.paid_out >= sweep.claimed {
        return Err(Reason::NothingToSettle.into());
    }
    if would_fail { Err(Reason::SweepSimulation.into()) } else { Ok(()) }
}

impl Proposal for SweepProposal {
    fn key(&self) -> JobKey {
        self.sweep.key()
    }

    fn payer(&self) -> Option<Address> {
        None
    }

    fn payees(&self) -> Vec<Address> {
        vec![self.sweep.receiver]
    }

    fn gas_min(&self) -> u64 {
        transaction::gas_min(GAS)
    }

    fn admit(&self, _network: &NetworkContext) -> Result<(), Rejection> {
        if self.sweep.claimed <= self.sweep.paid_out {
            return Err(Reason::NothingToSettle.into());
        }
        Ok(())
    }

    /// A payout has no signature, so the default message of a duplicate does not fit.
    fn duplicate_message(&self) -> Option<&'static str> {
        Some(
            "Everything that the receiver has claimed is paid out or being paid out: claim more first.",
        )
    }

    fn is_same_job(&self, job: &Job) -> bool {
        matches!(job, Job::Sweep(known) if known.key() == self.key())
    }

    fn check<'a>(
        &'a self,
        network: &'a NetworkContext,
        _priority: Priority,
    ) -> BoxFuture<'a, Result<VerifiedJob, VerifyError>> {
        Box::pin(async move {
            if self.would_fail {
                return Err(Reason::SweepSimulation.into());
            }
            let job = Job::Sweep(self.sweep);
            let gas = sent_transaction::check(network, &job, Reason::SweepSimulation).await?;
            Ok(VerifiedJob { job, is_done: false, extra: None, balance: U256::ZERO, gas })
        })
    }

    fn signed_by_key<'a>(
        &'a self,
        _network: &'a NetworkContext,
    ) -> BoxFuture<'a, Result<Option<Job>, VerifyError>> {
        // A payout needs no signature, and anyone can read its state on the chain.
        Box::pin(std::future::ready(Ok(Some(Job::Sweep(self.sweep)))))
    }
}
