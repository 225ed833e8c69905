//! One signed payment of any method, with everything that settling it needs. Pure values.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

/// How a payment is carried out. Serialized by position: append new variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MethodId {
    Eip3009,
    Permit2,
    Prism,
}

impl MethodId {
    /// The name of the method on the wire. It is also part of a [`PaymentKey`].
    pub fn text(self) -> &'static str {
        match self {
            Self::Eip3009 => "eip3009",
            Self::Permit2 => "permit2",
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
    /// In the smallest unit of the token.
    pub amount: U256,
    /// Used once per payer and token; with Permit2, once per payer.
    pub nonce: B256,
    /// Unix seconds.
    pub valid_after: U256,
    /// Unix seconds.
    pub valid_before: U256,
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
    /// The digest that was signed (EIP-712).
    pub digest: B256,
    /// Without its EIP-6492 wrapper.
    pub signature: Bytes,
    pub deployment: Option<Deployment>,
    /// The payer has code, or will have after its deployment. That code decides which signatures are valid and how much
    /// gas a transfer uses.
    pub contract_payer: bool,
}

/// Identifies a payment: of all payments with the same key, the chain can carry out only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PaymentKey(pub B256);

impl Payment {
    /// The key of this payment.
    pub fn key(&self) -> PaymentKey {
        PaymentKey::of(self.chain, self.method, &self.terms)
    }
}

impl PaymentKey {
    /// The key of a payment with these terms.
    pub fn of(chain: ChainId, method: MethodId, terms: &Terms) -> Self {
        let mut seed = chain.0.to_be_bytes().to_vec();
        seed.extend(method.text().as_bytes());
        match method {
            MethodId::Eip3009 | MethodId::Prism => seed.extend(terms.token),
            // A Permit2 nonce is used once across all tokens.
            MethodId::Permit2 => {}
        }
        seed.extend(terms.payer);
        seed.extend(terms.nonce);
        Self(keccak256(seed))
    }
}
