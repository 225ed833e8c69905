//! One signed token transfer of any method, with everything that settling it needs. Pure values.

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

/// How a payment is carried out. Serialized by position: append new variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MethodId {
    Eip3009,
    Permit2,
    Prism,
    /// Permit2 through the proxy of the scheme `upto`.
    UptoPermit2,
}

impl MethodId {
    /// The name of the method on the wire. It is also part of a [`JobKey`](crate::job_key::JobKey).
    pub fn text(self) -> &'static str {
        match self {
            Self::Eip3009 => "eip3009",
            Self::Permit2 | Self::UptoPermit2 => "permit2",
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
    /// The signed amount, in the smallest unit of the token. The scheme `exact` moves all of it, `upto` at most this.
    pub authorized: U256,
    /// Used once per payer and token; with Permit2, once per payer.
    pub nonce: B256,
    /// Unix seconds.
    pub valid_after: U256,
    /// Unix seconds.
    pub valid_before: U256,
    /// The only account that may send the transfer, if the payer names one.
    pub facilitator: Option<Address>,
}

/// How a wallet that does not exist yet is deployed (EIP-6492).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    pub factory: Address,
    pub data: Bytes,
}

/// A signed payment, ready to be simulated and settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub chain: ChainId,
    pub method: MethodId,
    pub terms: Terms,
    /// The amount that moves, in the smallest unit of the token; at most [`Terms::authorized`].
    pub amount: U256,
    /// The digest that was signed (EIP-712).
    pub digest: B256,
    /// Without its EIP-6492 wrapper.
    pub signature: Bytes,
    pub deployment: Option<Deployment>,
    /// The payer has code, or will have after its deployment. That code decides which signatures are valid and how much
    /// gas a transfer uses.
    pub contract_payer: bool,
}
