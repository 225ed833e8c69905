//! Reads the state of a channel.

use alloy_primitives::{B256, Bytes};
use alloy_sol_types::SolCall;
use bursar_chain::ports::ChainFault;
use bursar_x402::channel::IBatchSettlement;

use crate::batch::state::ChannelState;
use crate::contract_call::ContractCall;
use crate::contracts::Contracts;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::reads::{self, CallOutcome, Reads, TRUSTED_CALL_GAS};

/// Number of calls of [`calls`].
pub(super) const CALL_COUNT: usize = 3;

/// The calls that read the state of a channel.
pub(super) fn calls(contracts: &Contracts, channel: B256) -> [ContractCall; CALL_COUNT] {
    let of_escrow = |data: Vec<u8>| ContractCall { to: contracts.escrow, data: data.into() };
    [
        of_escrow(IBatchSettlement::channelsCall { channelId: channel }.abi_encode()),
        of_escrow(IBatchSettlement::pendingWithdrawalsCall { channelId: channel }.abi_encode()),
        of_escrow(IBatchSettlement::refundNonceCall { channelId: channel }.abi_encode()),
    ]
}

/// Asks a node for the state of a channel and nothing else. [`read`] reads the outcomes, which are empty if the calls
/// used up all gas.
///
/// # Errors
/// No node answers.
pub(super) async fn ask(
    network: &NetworkContext,
    channel: B256,
    priority: Priority,
) -> Result<Vec<CallOutcome>, ChainFault> {
    let wanted = Reads {
        calls: calls(&network.contracts, channel).to_vec(),
        gas: TRUSTED_CALL_GAS,
        is_trusted: true,
        ..Reads::default()
    };
    Ok(reads::read(network, wanted, priority).await?.outcomes.unwrap_or_default())
}

/// Reads the answers to [`calls`]. `None` if the escrow is missing.
pub(super) fn read(outcomes: impl IntoIterator<Item = CallOutcome>) -> Option<ChannelState> {
    let mut each = outcomes.into_iter().map(CallOutcome::returned_data);
    let mut next = || -> Option<Bytes> { each.next().flatten() };
    let channel = IBatchSettlement::channelsCall::abi_decode_returns_validate(&next()?).ok()?;
    let pending =
        IBatchSettlement::pendingWithdrawalsCall::abi_decode_returns_validate(&next()?).ok()?;
    let nonce = IBatchSettlement::refundNonceCall::abi_decode_returns_validate(&next()?).ok()?;
    let [withdraw_requested_at] = pending.initiatedAt.into_limbs();
    Some(ChannelState {
        balance: channel.balance,
        total_claimed: channel.totalClaimed,
        withdraw_requested_at,
        refund_nonce: nonce,
    })
}

/// Returns the amount of the pending withdrawal, from the second outcome of [`calls`].
pub(super) fn pending_withdrawal(outcome: &CallOutcome) -> Option<u128> {
    let CallOutcome::Returned(data) = outcome else { return None };
    let pending = IBatchSettlement::pendingWithdrawalsCall::abi_decode_returns_validate(data);
    Some(pending.ok()?.amount)
}
