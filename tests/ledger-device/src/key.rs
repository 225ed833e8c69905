//! The keys of a seed (BIP-39, BIP-32) and their signatures (RFC 6979).

use alloy_primitives::{Address, keccak256};
use hmac::{Hmac, KeyInit, Mac};
use k256::ecdsa::SigningKey;
use k256::elliptic_curve::ops::Reduce;
use k256::{NonZeroScalar, Scalar, U256};
use sha2::Sha512;

/// A seed of a device.
#[derive(Clone)]
pub struct Seed(Vec<u8>);

/// A key at a path.
pub struct Key(SigningKey);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed")
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

fn hmac_sha512(key: &[u8], data: &[u8]) -> Option<([u8; 32], [u8; 32])> {
    let mut mac = Hmac::<Sha512>::new_from_slice(key).ok()?;
    mac.update(data);
    let bytes = mac.finalize().into_bytes();
    let (left, right) = bytes.split_first_chunk::<32>()?;
    Some((*left, right.try_into().ok()?))
}

impl Seed {
    /// Reads the words of a seed without a passphrase; `None` if they are not valid.
    pub fn from_words(words: &str) -> Option<Self> {
        let mnemonic = bip39::Mnemonic::parse(words).ok()?;
        Some(Self(mnemonic.to_seed("").to_vec()))
    }

    /// Derives the key at a path, given as BIP-32 numbers.
    pub fn key(&self, path: &[u32]) -> Option<Key> {
        let (mut secret, mut chain) = hmac_sha512(b"Bitcoin seed", &self.0)?;
        for step in path {
            let parent = SigningKey::from_slice(&secret).ok()?;
            let mut data = if step & (1 << 31) == 0 {
                parent.verifying_key().to_encoded_point(true).as_bytes().to_vec()
            } else {
                [&[0], &secret[..]].concat()
            };
            data.extend(step.to_be_bytes());
            let (tweak, next) = hmac_sha512(&chain, &data)?;
            let sum = <Scalar as Reduce<U256>>::reduce_bytes(&tweak.into())
                + **parent.as_nonzero_scalar();
            secret = NonZeroScalar::new(sum).into_option()?.to_bytes().into();
            chain = next;
        }
        SigningKey::from_slice(&secret).ok().map(Key)
    }
}

impl Key {
    /// Returns the uncompressed public key, 65 bytes.
    pub fn public(&self) -> Vec<u8> {
        self.0.verifying_key().to_encoded_point(false).as_bytes().to_vec()
    }

    /// Returns the address.
    pub fn address(&self) -> Address {
        Address::from_raw_public_key(self.public().get(1..).unwrap_or_default())
    }

    /// Signs a digest; returns the parity, `r` and `s`.
    pub fn sign(&self, digest: &[u8; 32]) -> Option<(u8, [u8; 32], [u8; 32])> {
        let (signature, id) = self.0.sign_prehash_recoverable(digest).ok()?;
        Some((id.to_byte(), signature.r().to_bytes().into(), signature.s().to_bytes().into()))
    }
}

/// Returns the Keccak-256 hash.
pub fn keccak(bytes: &[u8]) -> [u8; 32] {
    keccak256(bytes).0
}
