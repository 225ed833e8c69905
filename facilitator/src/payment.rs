//! One signed payment, whatever its method: all that settling it needs. Pure values.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

/// How a payment is carried out. Kept by the place in this list: what is new comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MethodId {
    Eip3009,
    Permit2,
    Prism,
}

impl MethodId {
    pub fn text(self) -> &'static str {
        match self {
            Self::Eip3009 => "eip3009",
            Self::Permit2 => "permit2",
            Self::Prism => "prism",
        }
    }
}

/// What a payer signed, as its method reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub token: Address,
    pub payer: Address,
    pub payee: Address,
    /// In the smallest unit of the token.
    pub amount: U256,
    /// In the method's own space of nonces.
    pub nonce: B256,
    /// Unix seconds.
    pub valid_after: U256,
    /// Unix seconds.
    pub valid_before: U256,
}

/// A wallet that does not exist yet, and how it comes to be (EIP-6492).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    pub factory: Address,
    pub data: Bytes,
}

/// A payment that was found good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub chain: ChainId,
    pub method: MethodId,
    pub terms: Terms,
    /// What was signed (EIP-712).
    pub digest: B256,
    /// Without its EIP-6492 wrapper.
    pub signature: Bytes,
    pub deployment: Option<Deployment>,
    /// There is code at the payer, or will be: what it does with a signature, and with gas, is its own affair.
    pub contract_payer: bool,
}

/// Which payment: no two of one key can both happen on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PaymentKey(pub B256);

impl Payment {
    pub fn key(&self) -> PaymentKey {
        PaymentKey::of(self.chain, self.method, &self.terms)
    }
}

impl PaymentKey {
    pub fn of(chain: ChainId, method: MethodId, terms: &Terms) -> Self {
        let mut seed = chain.0.to_be_bytes().to_vec();
        seed.extend(method.text().as_bytes());
        match method {
            MethodId::Eip3009 | MethodId::Prism => seed.extend(terms.token),
            // A nonce of Permit2 is used once, over every token.
            MethodId::Permit2 => {}
        }
        seed.extend(terms.payer);
        seed.extend(terms.nonce);
        Self(keccak256(seed))
    }
}
