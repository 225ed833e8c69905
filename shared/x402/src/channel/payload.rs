//! The payloads of the scheme, which a payer or a resource server sends in `paymentPayload.payload`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::config::ChannelConfig;
use super::contract::IBatchSettlement;
use super::deposit::{Eip3009Authorization, Permit2Authorization};
use super::fault::ChannelFault;
use crate::error::X402Error;

/// Maximum number of claims in one payload.
///
/// It bounds the work before the first check. A node may accept fewer claims in one transaction. A claim with a
/// signature of 65 bytes takes 480 bytes of call data, so 272 claims reach the common limit of 128 KiB per
/// transaction.
pub const CLAIM_ROWS_MAX: usize = 400;

/// A payload that is parsed but not verified.
///
/// Parsing does not even compare the channel id of a voucher with the id of its config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelPayload {
    /// Opens a channel or adds money to it, and pays with the voucher.
    Deposit(Box<Deposit>),
    /// Pays from the channel's balance.
    Voucher(ChannelVoucher),
    /// A payer's request for a refund, which its resource server completes.
    Refund(RefundRequest),
    /// A refund that a resource server has completed.
    CompletedRefund(Box<CompletedRefund>),
    /// Records in the escrow the amounts that receivers have earned.
    Claim(ClaimRequest),
    /// Pays the claimed amounts out to a receiver.
    Settle(SettleRequest),
}

/// The payload `deposit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deposit {
    pub config: ChannelConfig,
    pub voucher: SignedVoucher,
    /// In the smallest unit of the token.
    pub amount: u128,
    pub authorization: DepositAuthorization,
}

/// How a deposit moves the payer's tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DepositAuthorization {
    Eip3009(Eip3009Authorization),
    Permit2(Permit2Authorization),
}

/// The payload `voucher`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelVoucher {
    pub config: ChannelConfig,
    pub voucher: SignedVoucher,
}

/// A payer's promise that the receiver may claim up to `max_claimable` in total.
///
/// The config and the signature are all that the receiver's side needs for the claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedVoucher {
    /// The channel id as sent, which the caller must compare with the id of the config.
    pub channel_id: B256,
    /// Cumulative over the life of the channel, in the smallest unit of the token.
    pub max_claimable: u128,
    pub signature: Bytes,
}

/// The payload `refund` as a payer sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundRequest {
    pub config: ChannelConfig,
    /// The voucher that proves the payer of the request.
    ///
    /// It pays nothing new: its ceiling equals the amount that was charged before.
    pub voucher: SignedVoucher,
    /// In the smallest unit of the token; `None` refunds the whole unclaimed balance.
    pub amount: Option<u128>,
}

/// The payload `refund` as a resource server completes it for the escrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedRefund {
    pub config: ChannelConfig,
    pub voucher: SignedVoucher,
    /// The amount in the smallest unit of the token.
    ///
    /// The escrow refunds less if the unclaimed balance is smaller.
    pub amount: u128,
    pub nonce: U256,
    /// Claims that the escrow records before the refund; there may be none, and they may be of other channels.
    pub claims: Vec<ClaimRow>,
    /// The receiver authorizer's signature of the refund.
    ///
    /// If it is absent, the facilitator must sign with the receiver authorizer's key.
    pub refund_signature: Option<Bytes>,
    /// The receiver authorizer's signature of the batch of claims.
    ///
    /// If it is absent although there are claims, the facilitator must sign with the receiver authorizer's key.
    pub claim_signature: Option<Bytes>,
}

/// The payload `claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// The claims, at least one.
    pub claims: Vec<ClaimRow>,
    /// The receiver authorizer's signature of the batch.
    ///
    /// If it is absent, the facilitator must sign with the receiver authorizer's key.
    pub claim_signature: Option<Bytes>,
}

/// One claim of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    pub channel: ChannelConfig,
    /// The cumulative ceiling of the voucher, in the smallest unit of the token.
    pub max_claimable: u128,
    /// The signature of the voucher, as sent.
    ///
    /// If the escrow recovers the signer, it accepts only 65 bytes with a low `s` and a last byte of 27 or 28. It
    /// reverts the whole batch for any other signature.
    pub signature: Bytes,
    /// The receiver's total of claims after this one.
    ///
    /// The escrow skips a row that does not raise the recorded total.
    pub total_claimed: u128,
}

/// The payload `settle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettleRequest {
    pub receiver: Address,
    pub token: Address,
}

impl From<&ClaimRow> for IBatchSettlement::VoucherClaim {
    fn from(row: &ClaimRow) -> Self {
        Self {
            voucher: IBatchSettlement::Voucher {
                channel: (&row.channel).into(),
                maxClaimableAmount: row.max_claimable,
            },
            signature: row.signature.clone(),
            totalClaimed: row.total_claimed,
        }
    }
}

/// Why a payload is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The payload does not have the required form. The text names the member.
    #[error(transparent)]
    Malformed(#[from] X402Error),
    /// The payload has a fault for which the protocol has a code.
    #[error(transparent)]
    Fault(#[from] ChannelFault),
    /// More than [`CLAIM_ROWS_MAX`] claims. No row was read.
    #[error("claims has {0} rows, and at most {CLAIM_ROWS_MAX} are accepted")]
    TooManyClaims(usize),
}
