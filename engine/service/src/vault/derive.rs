//! Derives keys from a seed: layouts, written paths and BIP-32. Reads no file and keeps no state.

pub mod private_key;

use std::fmt;
use std::str::FromStr;

use bip32::{ChildNumber, XPrv};
use secrecy::{ExposeSecret, SecretBox};
use zeroize::zeroize_stack;

pub use private_key::{KeyError, PrivateKey};

/// Stack bytes to wipe: bip32 leaves chain codes and HMAC blocks there, and k256 a few KiB of tables.
const STACK_BYTES: usize = 64 * 1024;

/// The derivation layouts of the wallet specification. The vault uses [`Layout::SOFTWARE`]; a hardware device may use
/// any of them. With the same seed, layout and index, both derive the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `m/44'/60'/x'/0/0`
    Live,
    /// `m/44'/60'/0'/0/x`
    Bip44,
    /// `m/44'/60'/0'/x`
    Legacy,
}

impl Layout {
    /// The layout of addresses that are derived from a seed of the wallet.
    pub const SOFTWARE: Self = Self::Bip44;

    /// Returns the path of the address with this index.
    ///
    /// # Errors
    /// The index is above 2^31 - 1, where indexes are hardened.
    pub fn path(self, index: u32) -> Result<DerivationPath, PathError> {
        let steps = match self {
            Self::Live => vec![hard(44)?, hard(60)?, hard(index)?, soft(0)?, soft(0)?],
            Self::Bip44 => vec![hard(44)?, hard(60)?, hard(0)?, soft(0)?, soft(index)?],
            Self::Legacy => vec![hard(44)?, hard(60)?, hard(0)?, soft(index)?],
        };
        Ok(DerivationPath(steps))
    }
}

/// Why a text is not a valid derivation path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("a derivation path begins with m, as in m/44'/60'/0'/0/0")]
    NoRoot,
    #[error("step {0} of the path must be a number, followed by ' if it is hardened")]
    BadStep(usize),
    #[error("an index is at most 2147483647")]
    IndexTooLarge,
    #[error("a derivation path has at most 255 steps")]
    TooDeep,
}

/// A BIP-32 path in its only written form: `m`, then `/` and a decimal number for each step, and `'` if the step is
/// hardened. Numbers have no sign and no leading zeros. The marks `h` and `H` are rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivationPath(Vec<ChildNumber>);

impl DerivationPath {
    /// Parses a path. `m` alone is valid: it is the path of the root key.
    ///
    /// # Errors
    /// The text is not in the written form, an index is above 2^31 - 1, or there are more than 255 steps.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let mut parts = text.split('/');
        if parts.next() != Some("m") {
            return Err(PathError::NoRoot);
        }
        let mut steps = Vec::new();
        for (number, part) in (1..).zip(parts) {
            if number > usize::from(u8::MAX) {
                return Err(PathError::TooDeep);
            }
            steps.push(parse_step(number, part)?);
        }
        Ok(Self(steps))
    }

    /// Returns the steps as BIP-32 numbers, with the highest bit set on hardened ones: the form that a device
    /// receives.
    pub fn steps(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|step| step.0)
    }
}

impl FromStr for DerivationPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl fmt::Display for DerivationPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("m")?;
        self.0.iter().try_for_each(|step| write!(f, "/{step}"))
    }
}

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
    for step in &path.0 {
        key = key.derive_child(*step).map_err(|_range| KeyError)?;
    }
    PrivateKey::from_signing_key(key.private_key())
}

fn parse_step(number: usize, part: &str) -> Result<ChildNumber, PathError> {
    let (digits, hardened) = match part.strip_suffix('\'') {
        Some(digits) => (digits, true),
        None => (part, false),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !plain || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(PathError::BadStep(number));
    }
    // There are only digits, so parsing fails only if the number is too large.
    let index = digits.parse().map_err(|_overflow| PathError::IndexTooLarge)?;
    ChildNumber::new(index, hardened).map_err(|_range| PathError::IndexTooLarge)
}

fn hard(index: u32) -> Result<ChildNumber, PathError> {
    ChildNumber::new(index, true).map_err(|_range| PathError::IndexTooLarge)
}

fn soft(index: u32) -> Result<ChildNumber, PathError> {
    ChildNumber::new(index, false).map_err(|_range| PathError::IndexTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardened_steps_have_the_highest_bit_set() {
        let path = DerivationPath::parse("m/44'/60'/0'/0/5").unwrap();
        let steps: Vec<u32> = path.steps().collect();
        assert_eq!(steps, [0x8000_002c, 0x8000_003c, 0x8000_0000, 0, 5]);
        assert_eq!(DerivationPath::parse("m").unwrap().steps().count(), 0);
    }

    #[test]
    fn a_path_has_one_written_form() {
        for text in ["m", "m/0", "m/44'/60'/0'/0/7", "m/2147483647'/2147483647"] {
            assert_eq!(DerivationPath::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "m/", "m/00", "m/01'", "m/44h", "m/44H", "m/'", "m/1 ", " m/1", "m/1/m"] {
            assert!(DerivationPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_is_at_most_255_steps_deep() {
        let deep = |steps: usize| DerivationPath::parse(&format!("m{}", "/0".repeat(steps)));
        assert!(deep(255).is_ok());
        assert_eq!(deep(256), Err(PathError::TooDeep));
        assert!(private_key(&SecretBox::new(Box::new([1; 64])), &deep(255).unwrap()).is_ok());
    }

    #[test]
    fn an_index_in_the_hardened_range_is_rejected() {
        for layout in [Layout::Live, Layout::Bip44, Layout::Legacy] {
            assert!(layout.path(2_147_483_647).is_ok());
            assert_eq!(layout.path(2_147_483_648), Err(PathError::IndexTooLarge));
        }
        assert_eq!(Layout::SOFTWARE.path(5).unwrap().to_string(), "m/44'/60'/0'/0/5");
    }
}
