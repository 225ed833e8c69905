//! The EIP-712 domain and digest under which a payment is signed.

use alloy_primitives::{B256, keccak256};

/// The EIP-712 domain under which a payment is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningDomain {
    /// The token's own domain.
    Token,
    /// A domain with this separator.
    Known(B256),
}

/// The digest to sign (EIP-712).
pub fn digest(separator: B256, struct_hash: B256) -> B256 {
    let mut bytes = [0; 66];
    let (magic, rest) = bytes.split_at_mut(2);
    magic.copy_from_slice(&[0x19, 0x01]);
    let (domain, message) = rest.split_at_mut(32);
    domain.copy_from_slice(separator.as_slice());
    message.copy_from_slice(struct_hash.as_slice());
    keccak256(bytes)
}
