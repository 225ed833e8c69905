//! Derives keys from a seed (BIP-32). Reads no file and keeps no state.

pub mod private_key;

use bip32::{ChildNumber, XPrv};
use bursar_core::derivation::DerivationPath;
use secrecy::{ExposeSecret, SecretBox};
use zeroize::zeroize_stack;

pub use private_key::{KeyError, PrivateKey};

/// Stack bytes to wipe: bip32 leaves chain codes and HMAC blocks there, and k256 a few KiB of tables.
const STACK_BYTES: usize = 64 * 1024;

/// Derives the key at a path from the 64 bytes of [`super::seed::Seed::bip39_seed`].
///
/// # Errors
/// BIP-32 yields no valid key there, which has a probability below 2^-127.
pub fn private_key(
    bip39_seed: &SecretBox<[u8; 64]>,
    path: &DerivationPath,
) -> Result<PrivateKey, KeyError> {
    let key = walk(bip39_seed.expose_secret(), path);
    zeroize_stack::<STACK_BYTES>();
    key
}

/// Not inlined, so that its stack frame lies below the caller's, where `zeroize_stack` wipes it.
#[inline(never)]
fn walk(bip39_seed: &[u8; 64], path: &DerivationPath) -> Result<PrivateKey, KeyError> {
    let mut key = XPrv::new(bip39_seed).map_err(|_range| KeyError)?;
    for step in path.steps() {
        key = key.derive_child(ChildNumber(step)).map_err(|_range| KeyError)?;
    }
    PrivateKey::from_signing_key(key.private_key())
}
