//! Payment channels: the scheme `batch-settlement` on EVM chains. A payer deposits into an escrow contract once, and
//! then pays with signed vouchers. Each voucher raises the amount that the receiver may claim.
//!
//! - [`ChannelConfig`] is the channel's identity; its hash is the channel id.
//! - [`domain::EscrowDomain`] hashes all messages that are signed under the escrow's EIP-712 domain.
//! - [`deposit`] hashes and encodes the two kinds of deposit.
//! - [`payload::ChannelPayload`] reads the payloads of `/verify` and `/settle`.
//! - [`contract`] is the interface of the escrow.
//!
//! This module contains no addresses: the escrow, its collectors and the domains of tokens are parameters. It verifies
//! no signature and reads no chain.

pub mod config;
pub mod contract;
pub mod deposit;
pub mod domain;
mod fault;
mod parse;
pub mod payload;

pub use config::{
    ChannelConfig, DelayTooLong, VoucherSigner, WITHDRAW_DELAY_SECONDS, WithdrawDelay,
};
pub use contract::IBatchSettlement;
pub use deposit::{DepositTerms, Eip3009Authorization, Permit2Authorization};
pub use domain::EscrowDomain;
pub use fault::ChannelFault;
pub use payload::{ChannelPayload, PayloadError};

/// The name of the scheme in offers and payments.
pub const SCHEME: &str = "batch-settlement";

#[cfg(test)]
mod tests;
