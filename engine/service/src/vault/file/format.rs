//! Owns the text of a wallet file, version 1, and which of its bytes each tag covers. Holds no secret and
//! decrypts nothing.
//!
//! The text is JSON, but has exactly one form: the bytes read must equal the bytes that this version would write. So
//! every altered byte is detected, even a space or an uppercase hex digit. The checksum at the end distinguishes a
//! damaged file from a wrong password, which a failing tag alone cannot. It does not stop an attacker, who can
//! recompute it.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::WalletFileError;
use crate::vault::kdf::{KdfParams, SALT_BYTES};
use crate::vault::sealed::{Nonce, Sealed};

const FORMAT: &str = "bursar-wallet";
const VERSION: u32 = 1;
const ALGORITHM: &str = "argon2id";

/// How the password locks the master key. Stays the same from save to save until the password changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) wallet_id: [u8; 16],
    pub(super) name: String,
    pub(super) kdf: KdfParams,
    pub(super) salt: [u8; SALT_BYTES],
    pub(super) wrapped_key: Sealed,
}

/// A parsed wallet file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WalletText {
    pub(super) lock: Lock,
    /// The number of this save. Each save raises it.
    pub(super) generation: u64,
    pub(super) payload: Sealed,
}

/// Why a text is not a wallet file of this version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Damaged(&'static str),
    Version(u64),
}

impl Unreadable {
    pub(super) fn into_error(self, file: &Path) -> WalletFileError {
        match self {
            Self::Damaged(reason) => WalletFileError::damaged(file, reason),
            Self::Version(version) => {
                WalletFileError::UnsupportedVersion { file: file.to_owned(), version }
            }
        }
    }
}

/// Returns the context that the tag of the wrapped key covers: the wallet's id and name, and the key derivation. So
/// the file cannot be passed off as another wallet's, and a password guess cannot be made cheaper.
pub(super) fn key_context(
    wallet_id: &[u8; 16],
    name: &str,
    kdf: &KdfParams,
    salt: &[u8; SALT_BYTES],
) -> Vec<u8> {
    let mut context = Vec::new();
    put_field(&mut context, b"wrapped key");
    put_field(&mut context, FORMAT.as_bytes());
    context.extend(VERSION.to_be_bytes());
    put_field(&mut context, wallet_id);
    put_field(&mut context, name.as_bytes());
    put_field(&mut context, ALGORITHM.as_bytes());
    for number in [kdf.memory_kib, kdf.iterations, kdf.parallelism] {
        context.extend(number.to_be_bytes());
    }
    put_field(&mut context, salt);
    context
}

/// Returns the context that the tag of the payload covers: all of [`key_context`], the wrapped key and the
/// generation. Parts of two saves cannot be combined, and the generation cannot be edited.
pub(super) fn payload_context(lock: &Lock, generation: u64) -> Vec<u8> {
    let mut context = Vec::new();
    put_field(&mut context, b"payload");
    put_field(&mut context, &lock.context());
    context.extend(generation.to_be_bytes());
    put_field(&mut context, lock.wrapped_key.nonce());
    put_field(&mut context, lock.wrapped_key.ciphertext());
    context
}

/// Writes the length first, so that no two lists of fields encode to the same bytes.
fn put_field(out: &mut Vec<u8>, field: &[u8]) {
    out.extend(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
    out.extend_from_slice(field);
}

impl Lock {
    pub(super) fn context(&self) -> Vec<u8> {
        key_context(&self.wallet_id, &self.name, &self.kdf, &self.salt)
    }
}

impl WalletText {
    pub(super) fn render(&self) -> Vec<u8> {
        let Lock { wallet_id, name, kdf, salt, wrapped_key } = &self.lock;
        let mut wire = Wire {
            format: FORMAT.to_owned(),
            version: VERSION,
            wallet_id: hex::encode(wallet_id),
            name: name.clone(),
            kdf: WireKdf {
                algorithm: ALGORITHM.to_owned(),
                memory_kib: kdf.memory_kib,
                iterations: kdf.iterations,
                parallelism: kdf.parallelism,
                salt: hex::encode(salt),
            },
            generation: self.generation,
            wrapped_key: WireSealed::of(wrapped_key),
            payload: WireSealed::of(&self.payload),
            checksum: String::new(),
        };
        wire.checksum = hex::encode(Sha256::digest(wire.text()));
        wire.text().into_bytes()
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Unreadable> {
        // Format and version come first: a later version may have other fields.
        let kind: FormatHeader = serde_json::from_slice(bytes)
            .map_err(|_syntax| Unreadable::Damaged("it is not a wallet file"))?;
        if kind.format != FORMAT {
            return Err(Unreadable::Damaged("it is not a wallet file"));
        }
        if kind.version != u64::from(VERSION) {
            return Err(Unreadable::Version(kind.version));
        }
        let wire: Wire = serde_json::from_slice(bytes)
            .map_err(|_shape| Unreadable::Damaged("a field is missing or invalid"))?;
        let text = wire.read().ok_or(Unreadable::Damaged("a field is invalid"))?;
        if text.render() != bytes {
            return Err(Unreadable::Damaged("its checksum does not match its content"));
        }
        Ok(text)
    }
}

/// The fields that every version has.
#[derive(Deserialize)]
struct FormatHeader {
    format: String,
    version: u64,
}

/// The fields of version 1, in the order in which they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    format: String,
    version: u32,
    wallet_id: String,
    name: String,
    kdf: WireKdf,
    generation: u64,
    wrapped_key: WireSealed,
    payload: WireSealed,
    /// SHA-256 of the text in which this field is empty, in hex.
    checksum: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKdf {
    algorithm: String,
    memory_kib: u32,
    iterations: u32,
    parallelism: u32,
    salt: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSealed {
    nonce: String,
    ciphertext: String,
}

impl Wire {
    fn text(&self) -> String {
        // Strings and numbers always serialise. If they did not, the empty text would not parse, and the save
        // would be refused before it replaced anything.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    fn read(self) -> Option<WalletText> {
        let WireKdf { algorithm, memory_kib, iterations, parallelism, salt } = self.kdf;
        // Checked here, because the comparison with the rendered text would report a wrong checksum.
        if algorithm != ALGORITHM {
            return None;
        }
        let lock = Lock {
            wallet_id: bytes_of(&self.wallet_id)?,
            name: self.name,
            kdf: KdfParams { memory_kib, iterations, parallelism },
            salt: bytes_of(&salt)?,
            wrapped_key: self.wrapped_key.read()?,
        };
        Some(WalletText { lock, generation: self.generation, payload: self.payload.read()? })
    }
}

impl WireSealed {
    fn of(sealed: &Sealed) -> Self {
        Self { nonce: hex::encode(sealed.nonce()), ciphertext: hex::encode(sealed.ciphertext()) }
    }

    fn read(&self) -> Option<Sealed> {
        let nonce = Nonce::try_from(hex::decode(&self.nonce).ok()?.as_slice()).ok()?;
        Some(Sealed::from_parts(nonce, hex::decode(&self.ciphertext).ok()?))
    }
}

fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    hex::decode(text).ok()?.try_into().ok()
}
