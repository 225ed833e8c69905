//! Derives a key from a password: Argon2id, its parameters and their bounds. Never touches a file, and
//! allocates nothing before the bounds are checked.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use secrecy::{ExposeSecret, SecretString};
use zeroize::{Zeroizing, zeroize_stack};

/// The size in bytes of a key, which is Argon2's output.
pub const KEY_BYTES: usize = 32;
/// The size of a salt in bytes (RFC 9106 section 3.1 recommends 16).
pub const SALT_BYTES: usize = 16;

/// Stack bytes to wipe: Argon2 keeps its state and the last block of the password there.
const STACK_BYTES: usize = 16 * 1024;

/// The parameters of the key derivation, which set the cost of one guess.
///
/// They are stored with the wallet, so that the cost can be raised without losing old wallets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KdfParams {
    pub memory_kib: u32,
    pub iterations: u32,
    pub parallelism: u32,
}

impl KdfParams {
    /// The parameters of the wallet specification (section "Wallet"): 256 MiB, 3 iterations, 4 lanes.
    pub const FULL: Self = Self { memory_kib: 262_144, iterations: 3, parallelism: 4 };

    /// The parameters for a payments-only edition on small machines: 64 MiB.
    pub const PAYMENTS_EDITION: Self = Self { memory_kib: 65_536, iterations: 3, parallelism: 4 };
}

/// The range of accepted parameters.
///
/// An attacker may have edited the file. Below the floor a password would be cheap to guess; above the ceiling the
/// derivation would exhaust the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KdfBounds {
    pub min_memory_kib: u32,
    pub max_memory_kib: u32,
    pub max_iterations: u32,
    pub max_parallelism: u32,
}

impl KdfBounds {
    /// The only bounds in production.
    ///
    /// Tests lower the floor, because a key of full strength takes a large part of a second.
    pub const PRODUCTION: Self = Self {
        min_memory_kib: 65_536,
        max_memory_kib: 524_288,
        max_iterations: 6,
        max_parallelism: 8,
    };

    /// The maximum of memory (KiB) times iterations: twice that of [`KdfParams::FULL`].
    const WORK_MAX: u64 = 2 * 262_144 * 3;

    /// Rejects parameters outside the bounds.
    ///
    /// # Errors
    /// Names the first parameter that is outside.
    pub fn check(&self, params: &KdfParams) -> Result<(), KdfError> {
        // Argon2 needs at least eight blocks of 1 KiB per lane.
        let floor = self.min_memory_kib.max(params.parallelism.saturating_mul(8));
        let rows = [
            ("parallelism", params.parallelism, 1, self.max_parallelism),
            ("iterations", params.iterations, 1, self.max_iterations),
            ("memory_kib", params.memory_kib, floor, self.max_memory_kib),
        ];
        for (parameter, found, lowest, highest) in rows {
            if !(lowest..=highest).contains(&found) {
                return Err(KdfError::OutOfBounds { parameter, found, lowest, highest });
            }
        }
        let work = u64::from(params.memory_kib).saturating_mul(u64::from(params.iterations));
        if work > Self::WORK_MAX {
            return Err(KdfError::TooMuchWork);
        }
        Ok(())
    }
}

/// Why no key was derived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KdfError {
    #[error("{parameter} is {found}, only {lowest} to {highest} is accepted")]
    OutOfBounds { parameter: &'static str, found: u32, lowest: u32, highest: u32 },

    #[error("memory_kib times iterations is more than twice Bursar's own value")]
    TooMuchWork,

    #[error("this needs {memory_kib} KiB of free memory; close other programs and try again")]
    OutOfMemory { memory_kib: u32 },
}

/// Derives a key with Argon2id (RFC 9106, version 0x13).
///
/// The caller has normalised the password to NFC.
///
/// # Errors
/// A parameter is outside the bounds, or there is too little memory.
pub fn derive_key(
    password: &SecretString,
    salt: &[u8; SALT_BYTES],
    params: &KdfParams,
    bounds: &KdfBounds,
) -> Result<Zeroizing<[u8; KEY_BYTES]>, KdfError> {
    bounds.check(params)?;
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let derived = fill(password, salt, params, &mut key);
    zeroize_stack::<STACK_BYTES>();
    derived.map(|()| key)
}

/// Not inlined, so that its stack frame lies below the caller's, where `zeroize_stack` wipes it.
#[inline(never)]
fn fill(
    password: &SecretString,
    salt: &[u8; SALT_BYTES],
    params: &KdfParams,
    key: &mut [u8; KEY_BYTES],
) -> Result<(), KdfError> {
    // Only a lack of memory can make this fail: the parameters are within the bounds, and every length is fixed.
    let failed = || KdfError::OutOfMemory { memory_kib: params.memory_kib };
    let shape =
        Params::new(params.memory_kib, params.iterations, params.parallelism, Some(KEY_BYTES))
            .map_err(|_refused| failed())?;

    // Use our own buffer, because argon2 does not wipe the buffer that it allocates. Use `try_reserve_exact`, because
    // a failed plain allocation of this size ends the process.
    let mut memory: Zeroizing<Vec<Block>> = Zeroizing::new(Vec::new());
    memory.try_reserve_exact(shape.block_count()).map_err(|_full| failed())?;
    memory.resize(shape.block_count(), Block::new());

    Argon2::new(Algorithm::Argon2id, Version::V0x13, shape)
        .hash_password_into_with_memory(
            password.expose_secret().as_bytes(),
            salt,
            key,
            memory.as_mut_slice(),
        )
        .map_err(|_refused| failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: KdfBounds = KdfBounds { min_memory_kib: 8, ..KdfBounds::PRODUCTION };

    fn derive(password: &str, memory_kib: u32, iterations: u32, parallelism: u32) -> String {
        let salt = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let params = KdfParams { memory_kib, iterations, parallelism };
        let key = derive_key(&SecretString::from(password), &salt, &params, &SMALL).unwrap();
        hex::encode(key.as_slice())
    }

    /// The expected keys come from the reference implementation in C (argon2-cffi 25.1).
    #[test]
    fn argon2_keys_match_the_reference_implementation() {
        let cases = [
            (("", 8, 1, 1), "31ed41e2d73f27fdfe4eb4bec651341e58ba43477051c6fe4adad735d82ee08a"),
            (
                ("correct horse", 64, 3, 4),
                "9bd6201406d26eb54e97961ba73c80c0a6fd3571471dda9b048f09a058c13e9e",
            ),
            (
                ("correct horse", 65_536, 3, 4),
                "577f1ff37e9a3e52c97d39f8e83891c1b73b0e87ffe0429cee8ede2fb005fe44",
            ),
        ];
        for ((password, memory_kib, iterations, parallelism), expected) in cases {
            assert_eq!(derive(password, memory_kib, iterations, parallelism), expected);
        }
    }

    #[test]
    fn production_bounds_argon2_cost_from_64_mib_to_twice_our_own() {
        let good = KdfParams::PAYMENTS_EDITION;
        for taken in [
            KdfParams::FULL,
            good,
            KdfParams { memory_kib: 524_288, iterations: 3, parallelism: 8 },
            KdfParams { memory_kib: 262_144, iterations: 6, parallelism: 8 },
            KdfParams { iterations: 1, parallelism: 1, ..good },
        ] {
            assert_eq!(KdfBounds::PRODUCTION.check(&taken), Ok(()), "{taken:?}");
        }
        for refused in [
            KdfParams { memory_kib: 65_535, ..good },
            KdfParams { memory_kib: 524_289, ..good },
            KdfParams { memory_kib: 524_288, iterations: 4, ..good },
            KdfParams { memory_kib: 262_145, iterations: 6, ..good },
            KdfParams { memory_kib: 2 * 1024 * 1024, ..good },
            KdfParams { memory_kib: u32::MAX, ..good },
            KdfParams { memory_kib: 0, ..good },
            KdfParams { iterations: 0, ..good },
            KdfParams { iterations: 7, ..good },
            KdfParams { parallelism: 0, ..good },
            KdfParams { parallelism: 9, ..good },
            KdfParams { parallelism: u32::MAX, ..good },
        ] {
            assert!(KdfBounds::PRODUCTION.check(&refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn argon2_memory_too_small_for_its_lanes_is_refused_by_name() {
        let params = KdfParams { memory_kib: 31, iterations: 1, parallelism: 4 };
        let refusal = SMALL.check(&params).unwrap_err();
        assert_eq!(refusal.to_string(), "memory_kib is 31, only 32 to 524288 is accepted");
    }
}
