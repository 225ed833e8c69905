//! The state of a channel as its endpoint reports it, with the calls that a payer's wallet needs to withdraw.

use alloy_primitives::B256;
use alloy_sol_types::SolCall;
use bursar_chain::ports::ChainFault;
use bursar_x402::channel::{ChannelConfig, IBatchSettlement};
use serde_json::{Value, json};

use crate::batch::state_reads;
use crate::network::NetworkContext;
use crate::node::Priority;

/// Returns the state of a channel, or `None` if the escrow has never had a channel with this id.
///
/// # Errors
/// No node answers.
pub async fn channel(network: &NetworkContext, id: B256) -> Result<Option<Value>, ChainFault> {
    let outcomes = state_reads::ask(network, id, Priority::Batched).await?;
    let pending = outcomes.get(1).and_then(state_reads::pending_withdrawal);
    let Some(state) = state_reads::read(outcomes) else { return Ok(None) };
    if state.balance == 0 && state.total_claimed == 0 && state.refund_nonce.is_zero() {
        return Ok(None);
    }
    let config = network.channel_config_cache.get(&id, network.clock.mono_ms());
    let delay = config.as_ref().map(|config| config.withdraw_delay.seconds());
    let withdrawal = pending.filter(|_amount| state.withdraw_requested_at != 0).map(|amount| {
        let finalizable_at = delay.map(|delay| state.withdraw_requested_at.saturating_add(delay));
        json!({
            "amount": amount.to_string(), "initiatedAt": state.withdraw_requested_at,
            "finalizableAt": finalizable_at,
        })
    });
    let available = state.balance.saturating_sub(state.total_claimed);
    Ok(Some(json!({
        "channelId": id,
        "network": network.table_row().caip2(),
        "balance": state.balance.to_string(),
        "totalClaimed": state.total_claimed.to_string(),
        "available": available.to_string(),
        "withdrawRequestedAt": state.withdraw_requested_at,
        "refundNonce": state.refund_nonce.to_string(),
        "withdrawal": withdrawal,
        "config": config.as_ref().map(config_json),
        "calls": config.as_ref().map(|config| withdrawal_calls(network, config, available)),
    })))
}

fn config_json(config: &ChannelConfig) -> Value {
    json!({
        "payer": config.payer, "payerAuthorizer": config.payer_authorizer,
        "receiver": config.receiver, "receiverAuthorizer": config.receiver_authorizer,
        "token": config.token, "withdrawDelay": config.withdraw_delay.seconds(),
        "salt": config.salt,
    })
}

/// The calls of a timed withdrawal, which only the payer or its authorizer may send.
fn withdrawal_calls(network: &NetworkContext, config: &ChannelConfig, available: u128) -> Value {
    let begin = IBatchSettlement::initiateWithdrawCall { config: config.into(), amount: available };
    let end = IBatchSettlement::finalizeWithdrawCall { config: config.into() };
    let call = |data: Vec<u8>| {
        json!({
            "to": network.contracts.escrow,
            "data": format!("0x{}", alloy_primitives::hex::encode(data)),
        })
    };
    json!({
        "initiateWithdraw": call(begin.abi_encode()),
        "finalizeWithdraw": call(end.abi_encode()),
    })
}
