//! The immutable terms of a channel.

use std::ops::RangeInclusive;

use alloy_primitives::aliases::U40;
use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};

use super::fault::ChannelFault;

/// The withdraw delays that the escrow accepts in a deposit, in seconds: 15 minutes to 30 days.
pub const WITHDRAW_DELAY_SECONDS: RangeInclusive<u64> = 900..=2_592_000;

/// The immutable terms of a channel.
///
/// Two configs that differ in any field belong to different channels.
///
/// Configs are public: the escrow's event `ChannelCreated` contains the config. So knowing a config does not
/// authenticate a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChannelConfig {
    /// The account that funds the channel, and receives refunds and withdrawals.
    pub payer: Address,
    /// The key that signs vouchers; zero if the payer itself signs them.
    pub payer_authorizer: Address,
    /// The account that receives the claimed money.
    pub receiver: Address,
    /// The account that signs claims and refunds; it must not be zero, and may be a contract.
    pub receiver_authorizer: Address,
    pub token: Address,
    /// How long the receiver can still claim after the payer has started a withdrawal.
    pub withdraw_delay: WithdrawDelay,
    pub salt: B256,
}

impl ChannelConfig {
    /// Returns the account whose signature the escrow requires on vouchers.
    pub fn voucher_signer(&self) -> VoucherSigner {
        if self.payer_authorizer.is_zero() {
            VoucherSigner::Payer(self.payer)
        } else {
            VoucherSigner::Authorizer(self.payer_authorizer)
        }
    }

    /// Checks that the escrow accepts the withdraw delay.
    ///
    /// # Errors
    /// [`ChannelFault::WithdrawDelayOutOfRange`] outside [`WITHDRAW_DELAY_SECONDS`].
    pub fn check_withdraw_delay(&self) -> Result<(), ChannelFault> {
        if WITHDRAW_DELAY_SECONDS.contains(&self.withdraw_delay.seconds()) {
            Ok(())
        } else {
            Err(ChannelFault::WithdrawDelayOutOfRange)
        }
    }
}

/// The account that signs a channel's vouchers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoucherSigner {
    /// The authorizer of the config. The escrow always recovers the signer (ECDSA), even if there is code at the
    /// address, so a check needs no chain.
    Authorizer(Address),
    /// The payer. If there is code at its address, the escrow asks the contract (EIP-1271).
    Payer(Address),
}

impl VoucherSigner {
    /// Returns the account.
    pub fn address(self) -> Address {
        match self {
            Self::Authorizer(address) | Self::Payer(address) => address,
        }
    }

    /// Returns whether the signer may be a contract (EIP-1271), so that a check of its signature needs the chain.
    pub fn may_be_contract(self) -> bool {
        matches!(self, Self::Payer(_))
    }
}

/// The delay of a withdrawal in seconds, below 2^40 as in the escrow's `uint40`.
///
/// A config with a value outside [`WITHDRAW_DELAY_SECONDS`] has a channel id, but no deposit into it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct WithdrawDelay(u64);

/// The error for a delay that does not fit into 40 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a withdraw delay must be below 2^40 seconds")]
pub struct DelayTooLong;

impl WithdrawDelay {
    /// The largest value of a `uint40`.
    pub const MAX: Self = Self(0xff_ffff_ffff);

    /// Returns the delay in seconds.
    pub fn seconds(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for WithdrawDelay {
    type Error = DelayTooLong;

    fn try_from(seconds: u64) -> Result<Self, DelayTooLong> {
        if seconds <= Self::MAX.0 { Ok(Self(seconds)) } else { Err(DelayTooLong) }
    }
}

impl From<WithdrawDelay> for u64 {
    fn from(delay: WithdrawDelay) -> Self {
        delay.0
    }
}

impl From<U40> for WithdrawDelay {
    fn from(seconds: U40) -> Self {
        let [seconds] = seconds.into_limbs();
        Self(seconds)
    }
}
