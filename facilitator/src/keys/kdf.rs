//! Derives the key of a keystore from its password: scrypt or PBKDF2, as the file specifies, within bounds. Without
//! bounds a crafted file could take all memory, or years of computation.

use alloy_primitives::hex;
use scrypt::Params;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::keys::keystore_error::KeystoreError;

/// Length of the derived key in bytes: half for the cipher, half for the MAC.
const KEY_BYTES: usize = 32;
const SALT_BYTES_MAX: usize = 64;

/// Maximum memory of scrypt in bytes: twice the need of the strongest common setting (n 262144, r 8).
const SCRYPT_MEMORY_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Maximum of n * r * p: eight times the strongest common setting. A derivation at this maximum takes some seconds.
const SCRYPT_WORK_MAX: u64 = 8 * 262_144 * 8;
/// Maximum number of PBKDF2 rounds: about forty times the usual number. A derivation with this many takes some seconds.
const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;

/// `kdf` and `kdfparams` of a keystore.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kdf", content = "kdfparams", rename_all = "lowercase")]
pub(super) enum Kdf {
    Scrypt { dklen: usize, n: u64, p: u32, r: u32, salt: String },
    Pbkdf2 { dklen: usize, c: u32, prf: String, salt: String },
}

impl Kdf {
    /// The parameters of new keystores, as strong as those of geth and of the published example.
    pub(super) fn strong(salt: &[u8; 32]) -> Self {
        Self::scrypt(262_144, salt)
    }

    pub(super) fn scrypt(n: u64, salt: &[u8; 32]) -> Self {
        Self::Scrypt { dklen: KEY_BYTES, n, p: 1, r: 8, salt: hex::encode(salt) }
    }

    /// Derives the key from a password. Rejects parameters that are out of bounds.
    pub(super) fn derive(
        &self,
        password: &[u8],
    ) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeystoreError> {
        let (dklen, salt) = match self {
            Kdf::Scrypt { dklen, salt, .. } | Kdf::Pbkdf2 { dklen, salt, .. } => (*dklen, salt),
        };
        let salt =
            hex::decode(salt).map_err(|_digits| KeystoreError::Format("its salt is not hex"))?;
        if dklen != KEY_BYTES || salt.len() > SALT_BYTES_MAX {
            return Err(KeystoreError::Format("its key or salt has an unusual length"));
        }
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        match self {
            Kdf::Scrypt { n, p, r, .. } => {
                // scrypt frees its working memory without wiping it. That memory is derived from the password, and
                // useless without the password.
                scrypt::scrypt(password, &salt, &checked_params(*n, *r, *p)?, key.as_mut_slice())
                    .map_err(|_length| KeystoreError::KDF_OUT_OF_BOUNDS)?;
            }
            Kdf::Pbkdf2 { c, prf, .. } => {
                if prf != "hmac-sha256" {
                    return Err(KeystoreError::Format("its prf is not hmac-sha256"));
                }
                if !(1..=PBKDF2_ROUNDS_MAX).contains(c) {
                    return Err(KeystoreError::KDF_OUT_OF_BOUNDS);
                }
                pbkdf2::pbkdf2_hmac::<Sha256>(password, &salt, *c, key.as_mut_slice());
            }
        }
        Ok(key)
    }
}

/// The parameters of scrypt, unless they need too much memory or time.
fn checked_params(n: u64, r: u32, p: u32) -> Result<Params, KeystoreError> {
    let (wide_r, wide_p) = (u64::from(r), u64::from(p));
    let product = |factors: &[u64]| {
        factors.iter().try_fold(1_u64, |so_far, factor| so_far.checked_mul(*factor))
    };
    // scrypt needs a table of n blocks of 128 * r bytes, and p initial blocks.
    let memory_bytes = n.checked_add(wide_p).and_then(|blocks| product(&[128, wide_r, blocks]));
    let work = product(&[n, wide_r, wide_p]);
    let fits = memory_bytes.is_some_and(|bytes| bytes <= SCRYPT_MEMORY_BYTES_MAX)
        && work.is_some_and(|work| work <= SCRYPT_WORK_MAX);
    if !fits || n < 2 || !n.is_power_of_two() {
        return Err(KeystoreError::KDF_OUT_OF_BOUNDS);
    }
    let log_n = u8::try_from(n.ilog2()).map_err(|_wide| KeystoreError::KDF_OUT_OF_BOUNDS)?;
    Params::new(log_n, r, p).map_err(|_zero| KeystoreError::KDF_OUT_OF_BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excessive_scrypt_parameters_are_rejected_before_allocation() {
        for (n, r, p) in [(262_144, 8, 1), (262_144, 1, 8), (2, 1, 1), (524_287 + 1, 4, 1)] {
            assert!(checked_params(n, r, p).is_ok(), "{n} {r} {p}");
        }
        for (n, r, p) in [
            (0, 8, 1),
            (1, 8, 1),
            (262_143, 8, 1),
            (262_144, 0, 1),
            (262_144, 8, 0),
            (1 << 20, 8, 1),
            (262_144, 8, 9),
            (2, 1, u32::MAX),
            (2, u32::MAX, 1),
            (2, u32::MAX, u32::MAX),
            (1 << 63, 8, 1),
            (u64::MAX, u32::MAX, u32::MAX),
        ] {
            assert!(checked_params(n, r, p).is_err(), "{n} {r} {p}");
        }
    }

    #[test]
    fn pbkdf2_rounds_and_lengths_are_bounded() {
        let make = |dklen, c, prf: &str, salt: &str| Kdf::Pbkdf2 {
            dklen,
            c,
            prf: prf.to_owned(),
            salt: salt.to_owned(),
        };
        assert!(make(32, 1, "hmac-sha256", "00").derive(b"password").is_ok());
        for refused in [
            make(32, 0, "hmac-sha256", "00"),
            make(32, PBKDF2_ROUNDS_MAX + 1, "hmac-sha256", "00"),
            make(32, u32::MAX, "hmac-sha256", "00"),
            make(16, 1, "hmac-sha256", "00"),
            make(usize::MAX, 1, "hmac-sha256", "00"),
            make(32, 1, "hmac-sha1", "00"),
            make(32, 1, "hmac-sha256", "0"),
            make(32, 1, "hmac-sha256", &"00".repeat(65)),
        ] {
            assert!(refused.derive(b"password").is_err());
        }
    }
}
