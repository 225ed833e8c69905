//! The payloads of the scheme: what a payer or a resource server sends in `paymentPayload.payload`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::config::ChannelConfig;
use super::contract::IBatchSettlement;
use super::deposit::{Eip3009Authorization, Permit2Authorization};
use super::fault::ChannelFault;
use crate::error::X402Error;

/// Maximum number of claims in one payload: bounds the work before the first check.
///
/// A node may accept fewer in one transaction. A claim with a signature of 65 bytes takes 480 bytes of call data, and
/// the common limit of 128 KiB per transaction is reached at 272 of them.
pub const CLAIM_ROWS_MAX: usize = 400;

/// A payload that is parsed but not verified.
///
/// Not even the id of a voucher is compared with that of its config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChannelPayload {
    /// Opens a channel or adds to it, and pays by the voucher.
    Deposit(Box<Deposit>),
    /// Pays from the channel's balance.
    Voucher(ChannelVoucher),
    /// A payer's request for a refund, which its resource server completes.
    Refund(RefundRequest),
    /// A refund that a resource server has completed.
    CompletedRefund(Box<CompletedRefund>),
    /// Records what receivers have earned.
    Claim(ClaimRequest),
    /// Pays out what was claimed.
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

/// A payer's promise: the receiver may claim up to `max_claimable` in all.
///
/// Any bearer of the config and the signature can let the receiver's side claim it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedVoucher {
    /// As sent: compare it with the id of the config.
    pub channel_id: B256,
    /// Cumulative over the life of the channel, in the smallest unit of the token.
    pub max_claimable: u128,
    pub signature: Bytes,
}

/// The payload `refund` in the form of a payer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundRequest {
    pub config: ChannelConfig,
    /// The voucher that proves the payer of the request.
    ///
    /// It charges nothing: its ceiling is what is charged already.
    pub voucher: SignedVoucher,
    /// In the smallest unit of the token; everything that is left if absent.
    pub amount: Option<u128>,
}

/// The payload `refund` in the form that the escrow can carry out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedRefund {
    pub config: ChannelConfig,
    pub voucher: SignedVoucher,
    /// The amount in the smallest unit of the token.
    ///
    /// The escrow refunds less if less is left.
    pub amount: u128,
    pub nonce: U256,
    /// Claims to record first; may be empty, and may be of other channels.
    pub claims: Vec<ClaimRow>,
    /// The receiver authorizer's signature of the refund.
    ///
    /// Without it, the facilitator must hold that key.
    pub refund_signature: Option<Bytes>,
    /// The same for the batch of claims.
    pub claim_signature: Option<Bytes>,
}

/// The payload `claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// At least one.
    pub claims: Vec<ClaimRow>,
    /// The receiver authorizer's signature of the batch.
    ///
    /// Without it, the facilitator must hold that key.
    pub claim_signature: Option<Bytes>,
}

/// One claim of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    pub channel: ChannelConfig,
    /// The ceiling of the voucher, cumulative, in the smallest unit of the token.
    pub max_claimable: u128,
    /// The signature of the voucher, as sent.
    ///
    /// Where the escrow recovers the signer, it accepts 65 bytes with a low `s` and 27 or 28 at the end, and reverts
    /// the whole batch otherwise.
    pub signature: Bytes,
    /// The total that the receiver will have claimed.
    ///
    /// The escrow skips a row that does not raise it.
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
    /// The text names the member.
    #[error(transparent)]
    Malformed(#[from] X402Error),
    /// The payload has a fault for which the protocol has a code.
    #[error(transparent)]
    Fault(#[from] ChannelFault),
    /// More than [`CLAIM_ROWS_MAX`] claims. No row was read.
    #[error("claims has {0} rows, and at most {CLAIM_ROWS_MAX} are accepted")]
    TooManyClaims(usize),
}
