//! The two kinds of deposit into a channel, by EIP-3009 and by Permit2: the message that the payer signs, and the data
//! that the escrow passes to its collector contract.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolValue;
use serde::{Deserialize, Serialize};

use crate::sponsoring::Eip2612Permit;
use crate::typed_data::digest;

mod eip3009 {
    alloy_sol_types::sol! {
        /// The EIP-3009 message that only the receiver `to` can redeem.
        #[derive(Debug, PartialEq, Eq)]
        struct ReceiveWithAuthorization {
            address from;
            address to;
            uint256 value;
            uint256 validAfter;
            uint256 validBefore;
            bytes32 nonce;
        }
    }
}

mod permit2 {
    alloy_sol_types::sol! {
        #[derive(Debug, PartialEq, Eq)]
        struct TokenPermissions {
            address token;
            uint256 amount;
        }

        #[derive(Debug, PartialEq, Eq)]
        struct DepositWitness {
            bytes32 channelId;
        }

        /// The Permit2 message with the channel as witness.
        #[derive(Debug, PartialEq, Eq)]
        struct PermitWitnessTransferFrom {
            TokenPermissions permitted;
            address spender;
            uint256 nonce;
            uint256 deadline;
            DepositWitness witness;
        }
    }
}

pub use eip3009::ReceiveWithAuthorization;
pub use permit2::{DepositWitness, PermitWitnessTransferFrom, TokenPermissions};

/// The terms of an EIP-3009 deposit that are not part of [`Eip3009Authorization`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DepositTerms {
    pub payer: Address,
    /// The collector contract for EIP-3009, which redeems the authorization.
    pub collector: Address,
    pub channel_id: B256,
    /// In the smallest unit of the token.
    pub amount: u128,
}

/// A deposit by EIP-3009.
///
/// Its other terms are in [`DepositTerms`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eip3009Authorization {
    /// Unix seconds; the token requires a later block time.
    pub valid_after: U256,
    /// Unix seconds; the token requires an earlier block time.
    pub valid_before: U256,
    pub salt: U256,
    /// The signature as sent; a counterfactual wallet wraps it (EIP-6492).
    pub signature: Bytes,
}

impl Eip3009Authorization {
    /// Returns the authorization's nonce, as the collector computes it.
    ///
    /// The nonce binds the deposit to its channel.
    pub fn nonce(&self, channel_id: B256) -> B256 {
        keccak256((channel_id, self.salt).abi_encode())
    }

    /// Returns the digest that the payer signs, under the token's domain.
    pub fn digest(&self, token_separator: B256, terms: &DepositTerms) -> B256 {
        let message = ReceiveWithAuthorization {
            from: terms.payer,
            to: terms.collector,
            value: U256::from(terms.amount),
            validAfter: self.valid_after,
            validBefore: self.valid_before,
            nonce: self.nonce(terms.channel_id),
        };
        digest(token_separator, &message)
    }

    /// Returns the `collectorData` of a deposit.
    ///
    /// `signature` is the one that the token checks: the inner signature, if EIP-6492 wraps [`Self::signature`].
    pub fn collector_data(&self, signature: &[u8]) -> Bytes {
        let signature = Bytes::copy_from_slice(signature);
        let words = (self.valid_after, self.valid_before, self.salt, signature);
        words.abi_encode_params().into()
    }
}

/// A deposit by Permit2, with the terms that its payload states.
///
/// The escrow does not use these terms: it takes payer, token, amount and channel id from the deposit. So the caller
/// must compare them with the deposit, and the spender with the collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit2Authorization {
    pub from: Address,
    pub token: Address,
    /// In the smallest unit of the token.
    pub amount: U256,
    pub spender: Address,
    /// A Permit2 nonce.
    ///
    /// Permit2's nonces are unordered, and each owner has separate nonces.
    pub nonce: U256,
    /// Unix seconds; Permit2 accepts block times up to this one.
    pub deadline: U256,
    /// The channel's id, which is the witness of the Permit2 message.
    pub channel_id: B256,
    /// The signature as sent; a counterfactual wallet wraps it (EIP-6492).
    pub signature: Bytes,
}

impl Permit2Authorization {
    /// Returns the digest that the payer signs, under the domain of Permit2.
    pub fn digest(&self, permit2_separator: B256) -> B256 {
        let message = PermitWitnessTransferFrom {
            permitted: TokenPermissions { token: self.token, amount: self.amount },
            spender: self.spender,
            nonce: self.nonce,
            deadline: self.deadline,
            witness: DepositWitness { channelId: self.channel_id },
        };
        digest(permit2_separator, &message)
    }

    /// Returns the `collectorData` of a deposit.
    ///
    /// `signature` is the one that Permit2 checks: the inner signature, if EIP-6492 wraps [`Self::signature`].
    /// `permit`, if any, first allows Permit2 to move the tokens.
    pub fn collector_data(&self, signature: &[u8], permit: Option<&Eip2612Permit>) -> Bytes {
        let signature = Bytes::copy_from_slice(signature);
        let permit = permit.map(encode).unwrap_or_default();
        (self.nonce, self.deadline, signature, permit).abi_encode_params().into()
    }
}

/// Encodes a permit in the collector's format.
fn encode(permit: &Eip2612Permit) -> Bytes {
    // The ABI encodes a uint8 as a whole word, like any other number.
    let words = (permit.value, permit.deadline, U256::from(permit.v), permit.r, permit.s);
    words.abi_encode_params().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;
    use alloy_sol_types::SolStruct;

    #[test]
    fn the_types_are_those_that_token_and_permit2_check() {
        let receive = "ReceiveWithAuthorization(address from,address to,uint256 value,\
                       uint256 validAfter,uint256 validBefore,bytes32 nonce)";
        let permit = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,\
                      uint256 nonce,uint256 deadline,DepositWitness witness)\
                      DepositWitness(bytes32 channelId)\
                      TokenPermissions(address token,uint256 amount)";
        assert_eq!(ReceiveWithAuthorization::eip712_encode_type(), receive);
        assert_eq!(PermitWitnessTransferFrom::eip712_encode_type(), permit);
        let published = b256!("0xd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8");
        assert_eq!(keccak256(receive), published);
        let published = b256!("0x436a25c01a21a6ed025816c4c9ea3d6132aa879dd7ef16f6188dd3b0aebccc52");
        assert_eq!(keccak256(permit), published);
    }
}
