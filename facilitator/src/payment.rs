//! One signed token transfer of any method, with all data that its settlement needs. Pure values.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::networks::ChainId;
use bursar_x402::sponsoring::Eip2612Permit;
use serde::{Deserialize, Serialize};

/// How a payment is carried out.
///
/// Serialized by position: append new variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MethodId {
    Eip3009,
    Permit2,
    Prism,
    /// Permit2 through the proxy of the scheme `upto`, for a payer that names one of our accounts.
    UptoPermit2,
    /// Permit2 through the proxy of the scheme `upto`, for a payer that names a contract of ours.
    UptoPermit2ByContract,
}

impl MethodId {
    /// Returns the name of the method on the wire.
    ///
    /// The name is also part of a [`JobKey`](crate::job_key::JobKey).
    pub fn text(self) -> &'static str {
        match self {
            Self::Eip3009 => "eip3009",
            Self::Permit2 | Self::UptoPermit2 | Self::UptoPermit2ByContract => "permit2",
            Self::Prism => "prism",
        }
    }
}

/// The terms that a payer signed, in a form common to all methods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub token: Address,
    pub payer: Address,
    pub payee: Address,
    /// The signed amount, in the smallest unit of the token.
    ///
    /// The scheme `exact` moves all of it, `upto` at most this.
    pub authorized_amount: U256,
    /// The nonce, which can be used once per payer and token, or with Permit2 once per payer.
    pub nonce: B256,
    /// Unix seconds.
    pub valid_after: U256,
    /// Unix seconds.
    pub valid_before: U256,
    /// The only account or contract that may call the proxy, if the payer names one.
    pub facilitator: Option<Address>,
}

/// How a wallet that does not exist yet is deployed (EIP-6492).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    pub factory: Address,
    pub data: Bytes,
}

/// How Permit2 receives an allowance from a payer that has not approved Permit2.
///
/// Serialized by position: append new variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sponsoring {
    /// A permit that the job's own transaction redeems (EIP-2612).
    Permit(Eip2612Permit),
    /// An approval transaction that the payer signed. It is broadcast before the job is sent.
    Approval(Bytes),
}

impl Sponsoring {
    /// Returns the gas that the sponsoring adds to the gas limit of the job's call, for any token.
    pub fn gas(&self) -> u64 {
        match self {
            Self::Permit(_) => 120_000,
            Self::Approval(_) => 0,
        }
    }

    /// Returns the bytes that the sponsoring adds to the data of the job's call.
    ///
    /// A permit adds five words.
    pub fn call_bytes(&self) -> usize {
        match self {
            Self::Permit(_) => 5 * 32,
            Self::Approval(_) => 0,
        }
    }

    /// Returns the permit, if this is one.
    pub fn permit(&self) -> Option<&Eip2612Permit> {
        match self {
            Self::Permit(permit) => Some(permit),
            Self::Approval(_) => None,
        }
    }

    /// Returns the signed approval, if this is one.
    pub fn approval(&self) -> Option<&Bytes> {
        match self {
            Self::Permit(_) => None,
            Self::Approval(raw) => Some(raw),
        }
    }
}

/// A signed payment, ready to be simulated and settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub chain: ChainId,
    pub method: MethodId,
    pub terms: Terms,
    /// The amount that moves, in the smallest unit of the token; at most [`Terms::authorized_amount`].
    pub amount: U256,
    /// The digest that was signed (EIP-712).
    pub digest: B256,
    /// The signature without its EIP-6492 wrapper.
    pub signature: Bytes,
    pub deployment: Option<Deployment>,
    /// Whether the payer has code, or will have after its deployment.
    ///
    /// That code decides which signatures are valid and how much gas a transfer uses.
    pub is_contract_payer: bool,
    /// Present only with methods that use Permit2.
    pub sponsoring: Option<Sponsoring>,
}
