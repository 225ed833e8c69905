//! The keys of the accounts that pay gas. Read from files once, wiped when dropped, and able to do one
//! thing: sign a digest. Nothing here shows, copies or writes a key in the clear.

mod disk;
mod fault;
mod kdf;
mod keystore;
mod ring;

use std::fmt;
use std::path::Path;
use std::sync::LazyLock;

use alloy_primitives::{Address, B256, hex, keccak256};
use bursar_x402::signature::{Signature65, SignatureError};
use secp256k1::{Message, Secp256k1, SecretKey, SignOnly};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use zeroize::{Zeroizing, zeroize_stack};

pub use fault::KeyFault;
pub use ring::KeyRing;

use kdf::Kdf;
use keystore::Sealed;

/// Scalars, hash states and round keys live on the stack while a key is read or used; this covers a
/// debug build too.
const STACK_BYTES: usize = 64 * 1024;

/// Blinds the multiplication with a number of its own, against measuring from outside (libsecp256k1's
/// recommendation). The crate's global context does not without its feature `rand`.
static CONTEXT: LazyLock<Secp256k1<SignOnly>> = LazyLock::new(|| {
    let mut context = Secp256k1::signing_only();
    let mut seed = Zeroizing::new([0; 32]);
    // Without random bytes signatures are the same and only the blinding is missing.
    if getrandom::fill(seed.as_mut_slice()).is_ok() {
        context.seeded_randomize(&seed);
    }
    context
});

/// A private key of secp256k1 with its address.
pub struct SigningKey {
    /// On the heap, so that moving the value leaves no copy behind.
    secret: SecretBox<[u8; 32]>,
    address: Address,
}

/// The bytes are zero or not below the order of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("these bytes are not a key of secp256k1")]
pub(crate) struct NotAKey;

impl SigningKey {
    /// Reads an encrypted JSON keystore, or a file with 64 hex digits that is closed to others. A keystore
    /// takes a second or so and much memory: call this where blocking is allowed.
    ///
    /// # Errors
    /// [`KeyFault`]; a wrong password cannot be told from a damaged file.
    pub fn load(file: &Path, password_file: Option<&Path>) -> Result<Self, KeyFault> {
        let found = disk::read(file)?;
        let key = if found.bytes.trim_ascii_start().starts_with(b"{") {
            Self::open(file, &found.bytes, password_file)
        } else {
            found.check_closed(file)?;
            bare(&found.bytes)
                .and_then(|bytes| Self::from_bytes(&bytes).ok())
                .ok_or_else(|| KeyFault::NoKey { file: file.to_owned() })
        };
        zeroize_stack::<STACK_BYTES>();
        key
    }

    /// Makes a key of random bytes and writes it, encrypted, to a file that must not exist yet. When this
    /// has answered, the file is on the disk.
    ///
    /// # Errors
    /// [`KeyFault`]; then there is no file that was not there before.
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
        // One in 2^128: as likely as guessing another's key.
        let key = Self::from_bytes(&secret).map_err(|NotAKey| KeyFault::NoEntropy)?;
        let (salt, iv, id) = (random()?, random()?, random()?);
        let sealed = Sealed::seal(&secret, key.address, password, kdf(&salt), &iv, *id);
        let text = sealed.and_then(|sealed| sealed.to_json());
        zeroize_stack::<STACK_BYTES>();
        let text = text.map_err(|problem| problem.about(file))?;
        disk::create(file, text.as_bytes())?;
        Ok(key)
    }

    /// A key from its bytes.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Result<Self, NotAKey> {
        let address = address_of(bytes)?;
        let secret = SecretBox::init_with_mut(|kept: &mut [u8; 32]| kept.copy_from_slice(bytes));
        Ok(Self { secret, address })
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Deterministic (RFC 6979) and with low s (EIP-2): the same digest always gets the same signature, so
    /// one that is asked for again after a restart tells nobody anything new.
    ///
    /// # Errors
    /// None that has ever been seen: the key was checked, and an r beyond the order is as likely as
    /// guessing it.
    pub fn sign(&self, digest: B256) -> Result<Signature65, SignatureError> {
        let signature = self.sign_below(digest);
        zeroize_stack::<STACK_BYTES>();
        signature
    }

    /// Not inlined, so that its stack lies below the caller's, who overwrites it.
    #[inline(never)]
    fn sign_below(&self, digest: B256) -> Result<Signature65, SignatureError> {
        let mut secret = SecretKey::from_byte_array(*self.secret.expose_secret())
            .map_err(|_checked| SignatureError::Scalar)?;
        let signed = CONTEXT.sign_ecdsa_recoverable(Message::from_digest(digest.0), &secret);
        secret.non_secure_erase();
        let (recovery, scalars) = signed.serialize_compact();
        // Of four recovery ids `ecrecover` knows two; Signature65 takes no other.
        let parity =
            u8::try_from(i32::from(recovery)).map_err(|_id| SignatureError::RecoveryByte)?;
        let (r, s) = scalars.split_at(32);
        Signature65::new(B256::from_slice(r), B256::from_slice(s), parity)
    }

    /// The same, with the password of a file.
    ///
    /// # Errors
    /// [`KeyFault`].
    pub fn create_keystore_by_file(file: &Path, password_file: &Path) -> Result<Self, KeyFault> {
        let password = disk::read(password_file)?;
        password.check_closed(password_file)?;
        let text = std::str::from_utf8(without_newline(&password.bytes));
        let text = text.map_err(|_bytes| KeyFault::EmptyPassword)?;
        Self::create_keystore(file, &SecretString::from(text))
    }

    fn open(file: &Path, json: &[u8], password_file: Option<&Path>) -> Result<Self, KeyFault> {
        let sealed = Sealed::from_json(json).map_err(|problem| problem.about(file))?;
        let password_file =
            password_file.ok_or_else(|| KeyFault::NoPassword { file: file.to_owned() })?;
        let password = disk::read(password_file)?;
        password.check_closed(password_file)?;
        let password = without_newline(&password.bytes);
        if password.is_empty() {
            return Err(KeyFault::EmptyPassword);
        }
        let secret = sealed.open(password).map_err(|problem| problem.about(file))?;
        let key = Self::from_bytes(&secret).ok();
        // A file whose address is not its key's was changed by somebody.
        key.filter(|key| sealed.address().is_none_or(|told| told == key.address))
            .ok_or_else(|| KeyFault::WrongPassword { file: file.to_owned() })
    }
}

/// Tells nothing at all.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey([redacted])")
    }
}

/// The last 20 bytes of Keccak-256 over the uncompressed point without its tag byte.
#[inline(never)]
fn address_of(bytes: &[u8; 32]) -> Result<Address, NotAKey> {
    let mut secret = SecretKey::from_byte_array(*bytes).map_err(|_range| NotAKey)?;
    let point = secret.public_key(&CONTEXT).serialize_uncompressed();
    secret.non_secure_erase();
    let (_tag, coordinates) = point.split_first().ok_or(NotAKey)?;
    Ok(Address::from_word(keccak256(coordinates)))
}

/// 64 hex digits, with or without `0x` and the newline of an editor.
fn bare(text: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    hex::decode_to_slice(text.trim_ascii(), bytes.as_mut_slice()).ok()?;
    Some(bytes)
}

/// One newline is the editor's; everything else belongs to the password.
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
