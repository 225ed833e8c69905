//! A private key: read from a file once, wiped when dropped. It signs digests and does nothing else.

use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use alloy_primitives::{Address, B256, hex, keccak256};
use bursar_x402::signature::{Signature65, SignatureError};
use secp256k1::{Message, Secp256k1, SecretKey, SignOnly};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use zeroize::{Zeroizing, zeroize_stack};

use crate::keys::disk;
use crate::keys::fault::KeyFault;
use crate::keys::kdf::Kdf;
use crate::keys::keystore::Keystore;

/// Size of the stack that is wiped. Scalars, hash states and round keys are on the stack while a key is read or used.
/// This covers a debug build too.
const WIPED_STACK_BYTES: usize = 64 * 1024;

/// Blinds the multiplication with a random number against side channels, as libsecp256k1 recommends. The crate's global
/// context does that only with its feature `rand`.
static CONTEXT: LazyLock<Secp256k1<SignOnly>> = LazyLock::new(|| {
    let mut context = Secp256k1::signing_only();
    let mut seed = Zeroizing::new([0; 32]);
    // Without random bytes only the blinding is missing; signatures are the same.
    if getrandom::fill(seed.as_mut_slice()).is_ok() {
        context.seeded_randomize(&seed);
    }
    context
});

/// A secp256k1 private key and its address.
pub struct SigningKey {
    /// The key is on the heap, so that moving the value leaves no copy behind.
    secret: SecretBox<[u8; 32]>,
    address: Address,
}

/// The bytes are zero or not below the order of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not a valid secp256k1 key")]
pub(crate) struct InvalidKey;

impl SigningKey {
    /// Reads an encrypted JSON keystore, or a file with 64 hex digits that only its owner can access.
    ///
    /// Decrypting a keystore takes about a second and much memory, so call this where blocking is allowed.
    ///
    /// # Errors
    /// [`KeyFault`]; a wrong password cannot be distinguished from a damaged file.
    pub fn load(file: &Path, password_file: Option<&Path>) -> Result<Self, KeyFault> {
        let opened = disk::read(file)?;
        let key = if opened.bytes.trim_ascii_start().starts_with(b"{") {
            Self::open(file, &opened.bytes, password_file)
        } else {
            opened.check_private(file)?;
            parse_hex_key(&opened.bytes)
                .and_then(|bytes| Self::from_bytes(&bytes).ok())
                .ok_or_else(|| KeyFault::NoKey { file: file.to_owned() })
        };
        zeroize_stack::<WIPED_STACK_BYTES>();
        key
    }

    /// Creates a random key and writes it, encrypted, to a file that must not exist yet.
    ///
    /// When this returns, the file is on disk.
    ///
    /// # Errors
    /// [`KeyFault`]; in this case no new file remains.
    pub fn create_keystore(file: &Path, password: &SecretString) -> Result<Self, KeyFault> {
        Self::create(file, password, Kdf::strong)
    }

    fn create(
        file: &Path,
        password: &SecretString,
        kdf: fn(salt: &[u8; 32]) -> Kdf,
    ) -> Result<Self, KeyFault> {
        let password = password.expose_secret().as_bytes();
        if password.is_empty() {
            return Err(KeyFault::EmptyPassword);
        }
        let secret = random::<32>()?;
        // Random bytes are an invalid key with a probability of about 2^-128.
        let key = Self::from_bytes(&secret).map_err(|InvalidKey| KeyFault::NoEntropy)?;
        let (salt, iv, id) = (random()?, random()?, random()?);
        let keystore = Keystore::seal(&secret, key.address, password, kdf(&salt), &iv, *id);
        let text = keystore.and_then(|keystore| keystore.to_json());
        zeroize_stack::<WIPED_STACK_BYTES>();
        let text = text.map_err(|error| error.into_fault(file))?;
        disk::create(file, text.as_bytes())?;
        Ok(key)
    }

    /// Creates a key from its bytes.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Result<Self, InvalidKey> {
        let address = address_of(bytes)?;
        let secret = SecretBox::init_with_mut(|kept: &mut [u8; 32]| kept.copy_from_slice(bytes));
        Ok(Self { secret, address })
    }

    /// The address of the key.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Signs a digest.
    ///
    /// Signatures are deterministic (RFC 6979) and have a low `s` (EIP-2): signing the same digest again after a
    /// restart gives the same signature and reveals nothing new.
    ///
    /// # Errors
    /// None in practice: the key is valid, and an r beyond the order is as unlikely as guessing the key.
    pub fn sign(&self, digest: B256) -> Result<Signature65, SignatureError> {
        let signature = self.sign_on_wiped_stack(digest);
        zeroize_stack::<WIPED_STACK_BYTES>();
        signature
    }

    /// Not inlined, so that its stack frame lies below that of the caller, which wipes this area afterwards.
    #[inline(never)]
    fn sign_on_wiped_stack(&self, digest: B256) -> Result<Signature65, SignatureError> {
        let mut secret = SecretKey::from_byte_array(*self.secret.expose_secret())
            .map_err(|_checked| SignatureError::Scalar)?;
        let signed = CONTEXT.sign_ecdsa_recoverable(Message::from_digest(digest.0), &secret);
        secret.non_secure_erase();
        let (recovery, scalars) = signed.serialize_compact();
        // `ecrecover` accepts two of the four recovery ids; `Signature65` rejects the others.
        let parity =
            u8::try_from(i32::from(recovery)).map_err(|_id| SignatureError::RecoveryByte)?;
        let (r, s) = scalars.split_at(32);
        Signature65::new(B256::from_slice(r), B256::from_slice(s), parity)
    }

    /// Creates a keystore like [`Self::create_keystore`], with the password from a file.
    ///
    /// # Errors
    /// [`KeyFault`].
    pub fn create_keystore_by_file(file: &Path, password_file: &Path) -> Result<Self, KeyFault> {
        let password = disk::read(password_file)?;
        password.check_private_or_mounted(password_file)?;
        let text = std::str::from_utf8(without_newline(&password.bytes));
        let text = text.map_err(|_bytes| KeyFault::EmptyPassword)?;
        Self::create_keystore(file, &SecretString::from(text))
    }

    fn open(file: &Path, json: &[u8], password_file: Option<&Path>) -> Result<Self, KeyFault> {
        let keystore = Keystore::from_json(json).map_err(|error| error.into_fault(file))?;
        let password_file =
            password_file.ok_or_else(|| KeyFault::NoPassword { file: file.to_owned() })?;
        let password = disk::read(password_file)?;
        password.check_private_or_mounted(password_file)?;
        let password = without_newline(&password.bytes);
        if password.is_empty() {
            return Err(KeyFault::EmptyPassword);
        }
        let secret = keystore.open(password).map_err(|error| error.into_fault(file))?;
        let key = Self::from_bytes(&secret).ok();
        // If the address does not match the key, the file was changed.
        key.filter(|key| keystore.address().is_none_or(|stated| stated == key.address))
            .ok_or_else(|| KeyFault::WrongPassword { file: file.to_owned() })
    }
}

/// Hides the key.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey([redacted])")
    }
}

/// The last 20 bytes of Keccak-256 over the uncompressed point without its tag byte.
#[inline(never)]
fn address_of(bytes: &[u8; 32]) -> Result<Address, InvalidKey> {
    let mut secret = SecretKey::from_byte_array(*bytes).map_err(|_range| InvalidKey)?;
    let point = secret.public_key(&CONTEXT).serialize_uncompressed();
    secret.non_secure_erase();
    let (_tag, coordinates) = point.split_first().ok_or(InvalidKey)?;
    Ok(Address::from_word(keccak256(coordinates)))
}

/// Parses 64 hex digits, with or without `0x` and a trailing newline.
fn parse_hex_key(text: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(text.trim_ascii(), bytes.as_mut_slice()).ok()?;
    Some(bytes)
}

/// Removes the one newline that an editor adds. Everything else belongs to the password.
fn without_newline(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, KeyFault> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|_system| KeyFault::NoEntropy)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
