//! Owns [`PrivateKey`], the engine's only type for a private key. It signs digests and is wiped on drop. Only
//! `address export` reveals its bytes.

use std::fmt;

use alloy_primitives::{Address, B256, keccak256};
use k256::ecdsa::SigningKey;
use zeroize::{Zeroizing, zeroize_stack};

/// Stack bytes to wipe: k256 keeps scalars and multiplication tables there. Covers debug builds too.
const STACK_BYTES: usize = 64 * 1024;

/// The bytes are not a valid secp256k1 key, or no signature exists.
///
/// For random bytes both errors are practically impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not a usable secp256k1 key")]
pub struct KeyError;

/// A secp256k1 private key with its address.
pub struct PrivateKey {
    /// Boxed, so that moving the value leaves no copy of the key behind.
    key: Box<SigningKey>,
    address: Address,
}

impl PrivateKey {
    /// Creates a key from its 32 bytes.
    ///
    /// # Errors
    /// The bytes are zero, or not below the order of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = Self::read(bytes);
        zeroize_stack::<STACK_BYTES>();
        key
    }

    pub(super) fn from_signing_key(key: &SigningKey) -> Result<Self, KeyError> {
        // An uncompressed point is a 4 and two coordinates. The address is the last 20 bytes of Keccak-256 over
        // the coordinates.
        let point = key.verifying_key().to_encoded_point(false);
        let (_mark, coordinates) = point.as_bytes().split_first().ok_or(KeyError)?;
        let address = Address::from_word(keccak256(coordinates));
        Ok(Self { key: Box::new(key.clone()), address })
    }

    /// Returns the Ethereum address of the key.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Signs a digest and returns `r || s || v`, with `v` 27 or 28.
    ///
    /// Signatures are deterministic (RFC 6979) with low `s` (EIP-2): the same digest always gets the same
    /// bytes. So a restart that signs again does not publish a second signature.
    ///
    /// # Errors
    /// No signature exists for this digest; see [`KeyError`].
    pub fn sign_digest(&self, digest: &B256) -> Result<[u8; 65], KeyError> {
        let signature = self.sign(digest);
        zeroize_stack::<STACK_BYTES>();
        signature
    }

    /// Returns the key's bytes, only for `address export` after the password.
    pub fn expose_bytes(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.key.to_bytes().into())
    }

    // The next two functions are not inlined, so that their stack frames lie below the caller's, where
    // `zeroize_stack` wipes them.

    #[inline(never)]
    fn read(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        Self::from_signing_key(&SigningKey::from_slice(bytes).map_err(|_range| KeyError)?)
    }

    #[inline(never)]
    fn sign(&self, digest: &B256) -> Result<[u8; 65], KeyError> {
        let (signature, recovery) =
            self.key.sign_prehash_recoverable(digest.as_slice()).map_err(|_zero| KeyError)?;
        // `ecrecover` accepts only 27 and 28. A reduced x has never been observed.
        if recovery.is_x_reduced() {
            return Err(KeyError);
        }
        let mut bytes = [27; 65];
        let (scalars, v) = bytes.split_at_mut(64);
        scalars.copy_from_slice(&signature.to_bytes());
        v.fill(if recovery.is_y_odd() { 28 } else { 27 });
        Ok(bytes)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows_itself() {
        let key = PrivateKey::from_bytes(&[0x11; 32]).unwrap();
        assert_eq!(format!("{key:?} {key:#?}"), "PrivateKey([redacted]) PrivateKey([redacted])");
    }

    #[test]
    fn zero_and_values_from_the_curve_order_up_are_rejected_as_keys() {
        let order = alloy_primitives::hex!(
            "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
        );
        for bytes in [[0; 32], [0xff; 32], order] {
            assert!(PrivateKey::from_bytes(&bytes).is_err());
        }
    }
}
