//! Permits: signed messages with which Permit2 allows a spender to take a token.
//!
//! Any account that sees a signed permit may send it to Permit2 first. In that case the allowance exists and the
//! nonce is used, so the swap must succeed even if its own permit reverts: see [`crate::swap::v4_exact_input`].

use std::borrow::Cow;

use alloy_primitives::aliases::{U48, U160};
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{Eip712Domain, SolStruct, SolValue};
use bursar_core::networks::ChainId;
use serde::{Deserialize, Serialize};

use crate::abi::permit2::{PermitDetails, PermitSingle};

/// Largest amount of a Permit2 allowance, which transfers do not decrease.
pub const PERMIT2_AMOUNT_MAX: U256 = U256::from_limbs([u64::MAX, u64::MAX, 0xffff_ffff, 0]);

/// Why a permit or a Permit2 allowance cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PermitFault {
    #[error("the amount exceeds 160 bits, the most that Permit2 can allow")]
    Amount,
    #[error("the expiration exceeds 48 bits")]
    Expiration,
    #[error("the nonce exceeds 48 bits")]
    Nonce,
}

/// A permit for one token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// The token that the spender may take.
    pub token: Address,
    /// The allowed amount, in the token's smallest unit; at most 160 bits.
    pub amount: U256,
    /// Unix seconds after which the allowance is no longer valid.
    pub expiration: u64,
    /// The nonce that Permit2's `allowance` returns.
    pub nonce: u64,
    /// The contract that may take the token: the Universal Router.
    pub spender: Address,
    /// Unix seconds after which the signature is no longer valid.
    pub signature_deadline: u64,
}

/// A permit and its owner's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedPermit {
    /// The signed content.
    pub permit: Permit,
    /// 65 bytes (r, s, v) from a key, or any bytes that a contract wallet accepts.
    pub signature: Bytes,
}

impl Permit {
    /// Returns the EIP-712 struct hash, without the domain.
    ///
    /// # Errors
    /// A field exceeds its bits.
    pub fn struct_hash(&self) -> Result<B256, PermitFault> {
        Ok(self.to_abi()?.eip712_hash_struct())
    }

    /// Returns the digest to sign for the Permit2 contract at `permit2` on `chain`.
    ///
    /// # Errors
    /// A field exceeds its bits.
    pub fn digest(&self, chain: ChainId, permit2: Address) -> Result<B256, PermitFault> {
        Ok(self.to_abi()?.eip712_signing_hash(&domain(chain, permit2)))
    }

    fn to_abi(self) -> Result<PermitSingle, PermitFault> {
        Ok(PermitSingle {
            details: PermitDetails {
                token: self.token,
                amount: abi_amount(self.amount)?,
                expiration: abi_expiration(self.expiration)?,
                nonce: abi_time(self.nonce).ok_or(PermitFault::Nonce)?,
            },
            spender: self.spender,
            sigDeadline: U256::from(self.signature_deadline),
        })
    }
}

impl SignedPermit {
    /// Returns the input of the Universal Router's command `PERMIT2_PERMIT`.
    ///
    /// # Errors
    /// A field exceeds its bits.
    pub fn router_input(&self) -> Result<Bytes, PermitFault> {
        Ok((self.permit.to_abi()?, self.signature.clone()).abi_encode_params().into())
    }
}

/// Returns the EIP-712 domain of Permit2, which has no version.
pub fn domain(chain: ChainId, permit2: Address) -> Eip712Domain {
    Eip712Domain {
        name: Some(Cow::Borrowed("Permit2")),
        version: None,
        chain_id: Some(U256::from(chain.0)),
        verifying_contract: Some(permit2),
        salt: None,
    }
}

pub(crate) fn abi_amount(amount: U256) -> Result<U160, PermitFault> {
    U160::checked_from_limbs_slice(amount.as_limbs()).ok_or(PermitFault::Amount)
}

pub(crate) fn abi_expiration(expiration: u64) -> Result<U48, PermitFault> {
    abi_time(expiration).ok_or(PermitFault::Expiration)
}

fn abi_time(seconds: u64) -> Option<U48> {
    U48::checked_from_limbs_slice(&[seconds])
}

#[cfg(test)]
mod tests;
