//! The state of a payment channel on the chain.

use alloy_primitives::{B256, U256};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The state of a channel at one block.
///
/// Amounts are in the smallest unit of the channel's token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelState {
    /// Deposits less withdrawals and refunds.
    pub balance: u128,
    pub total_claimed: u128,
    /// When the payer started a withdrawal, in Unix seconds; 0 if none is pending.
    pub withdraw_requested_at: u64,
    pub refund_nonce: U256,
}

impl ChannelState {
    /// Returns the members that describe the state in answers, in the form that official servers read.
    pub fn to_json(self, channel: B256) -> Value {
        json!({
            "channelId": channel,
            "balance": self.balance.to_string(),
            "totalClaimed": self.total_claimed.to_string(),
            "withdrawRequestedAt": self.withdraw_requested_at,
            "refundNonce": self.refund_nonce.to_string(),
        })
    }
}
