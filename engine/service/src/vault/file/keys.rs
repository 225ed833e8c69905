//! Owns the master key of a wallet and its wrapping by the password. No other module derives a key from a password.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, ExposeSecretMut, SecretBox, SecretString};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroizing, zeroize_stack};

use super::contents::Contents;
use super::error::WalletFileError;
use super::format::{Lock, WalletText, key_context, payload_context};
use crate::vault::kdf::{KdfBounds, KdfParams, SALT_BYTES, derive_key};
use crate::vault::sealed::{self, SealError};

/// The context of the key that seals the journal.
const JOURNAL_SEAL_CONTEXT: &[u8] = b"bursar journal seal v1";
/// The context of a backup's key, before its salt.
const BACKUP_CONTEXT: &[u8] = b"bursar backup v1";

/// Stack bytes to wipe: HMAC keeps its state there. Covers debug builds too.
const STACK_BYTES: usize = 8 * 1024;

/// An unlocked master key, with the lock that the password opens.
pub(super) struct Keys {
    master: SecretBox<[u8; 32]>,
    lock: Lock,
}

/// The wallet that the keys belong to.
pub(super) struct WalletIdentity {
    pub(super) wallet_id: [u8; 16],
    pub(super) name: String,
}

impl Keys {
    /// Creates a master key and wraps it with a new salt. `file` is only named in errors.
    pub(super) fn make(
        file: &Path,
        WalletIdentity { wallet_id, name }: WalletIdentity,
        password: &SecretString,
        kdf: KdfParams,
        bounds: &KdfBounds,
    ) -> Result<Self, WalletFileError> {
        let mut master = SecretBox::<[u8; 32]>::default();
        random(file, master.expose_secret_mut())?;
        let mut salt = [0; SALT_BYTES];
        random(file, &mut salt)?;
        let wrapping = derive_key(password, &salt, &kdf, bounds)
            .map_err(|source| WalletFileError::of_kdf(file, source))?;
        let context = key_context(&wallet_id, &name, &kdf, &salt);
        let wrapped_key = sealed::seal(&wrapping, &context, master.expose_secret())
            .map_err(|source| WalletFileError::not_sealed(file, source))?;
        Ok(Self { master, lock: Lock { wallet_id, name, kdf, salt, wrapped_key } })
    }

    /// Unwraps the master key of `lock`.
    pub(super) fn unlock(
        file: &Path,
        lock: &Lock,
        password: &SecretString,
        bounds: &KdfBounds,
    ) -> Result<Self, WalletFileError> {
        let wrapping = derive_key(password, &lock.salt, &lock.kdf, bounds)
            .map_err(|source| WalletFileError::of_kdf(file, source))?;
        let opened = sealed::open(&wrapping, &lock.context(), &lock.wrapped_key)
            .map_err(|_tag| WalletFileError::WrongPassword { file: file.to_owned() })?;
        let mut master = SecretBox::<[u8; 32]>::default();
        let size = "its master key has the wrong size";
        let bytes: &[u8; 32] =
            opened.as_slice().try_into().map_err(|_length| WalletFileError::damaged(file, size))?;
        master.expose_secret_mut().copy_from_slice(bytes);
        Ok(Self { master, lock: lock.clone() })
    }

    pub(super) fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Compares two master keys in constant time.
    pub(super) fn is_same_key(&self, other: &Self) -> bool {
        self.master.expose_secret().ct_eq(other.master.expose_secret()).into()
    }

    /// Returns the subkey for the journal's seals. This key cannot open the wallet.
    pub(super) fn seal_key(&self) -> Zeroizing<[u8; 32]> {
        self.subkey(&[JOURNAL_SEAL_CONTEXT])
    }

    /// Returns the subkey for the backup that has this salt.
    pub(super) fn backup_key(&self, salt: &[u8; 32]) -> Zeroizing<[u8; 32]> {
        self.subkey(&[BACKUP_CONTEXT, salt])
    }

    fn subkey(&self, context: &[&[u8]]) -> Zeroizing<[u8; 32]> {
        let mut key = Zeroizing::new([0; 32]);
        self.fill_subkey(&mut key, context);
        zeroize_stack::<STACK_BYTES>();
        key
    }

    /// Not inlined, so that its stack frame lies below the caller's, where `zeroize_stack` wipes it.
    #[inline(never)]
    fn fill_subkey(&self, key: &mut [u8; 32], context: &[&[u8]]) {
        // HMAC pads a short key with zeros to its block size. Padding it here fixes the length, so `new` cannot fail.
        let mut block = Zeroizing::new([0; 64]);
        block.iter_mut().zip(self.master.expose_secret()).for_each(|(to, from)| *to = *from);
        let mut mac = Hmac::<Sha256>::new((&*block).into());
        for part in context {
            mac.update(part);
        }
        key.copy_from_slice(&mac.finalize().into_bytes());
    }

    /// Seals the next save. The result is opened again before it is returned, because it will replace the file
    /// that holds the seeds.
    pub(super) fn seal(
        &self,
        file: &Path,
        generation: u64,
        contents: &Contents,
    ) -> Result<WalletText, WalletFileError> {
        let too_large = || WalletFileError::TooLarge { file: file.to_owned() };
        let plaintext = contents.encode().ok_or_else(too_large)?;
        let context = payload_context(&self.lock, generation);
        let payload = sealed::seal(self.master.expose_secret(), &context, &plaintext)
            .map_err(|source| WalletFileError::not_sealed(file, source))?;
        let text = WalletText { lock: self.lock.clone(), generation, payload };

        let read = WalletText::parse(&text.render()).map_err(|why| why.into_error(file))?;
        let opened = self.open_payload(&read).ok();
        if opened.is_none_or(|opened| !bool::from(opened.as_slice().ct_eq(plaintext.as_slice()))) {
            return Err(WalletFileError::not_sealed(file, SealError::NotAuthentic));
        }
        Ok(text)
    }

    pub(super) fn open(&self, file: &Path, text: &WalletText) -> Result<Contents, WalletFileError> {
        let plaintext = self.open_payload(text).map_err(|_tag| {
            WalletFileError::damaged(file, "the password is right, but the contents are damaged")
        })?;
        Contents::decode(&plaintext)
            .ok_or_else(|| WalletFileError::damaged(file, "its contents cannot be read"))
    }

    fn open_payload(&self, text: &WalletText) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let context = payload_context(&text.lock, text.generation);
        sealed::open(self.master.expose_secret(), &context, &text.payload)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys([redacted])")
    }
}

/// Fills `bytes` from the system's random source, for keys, salts and the wallet's id.
pub(super) fn random(file: &Path, bytes: &mut [u8]) -> Result<(), WalletFileError> {
    getrandom::fill(bytes)
        .map_err(|_system| WalletFileError::not_sealed(file, SealError::NoEntropy))
}
