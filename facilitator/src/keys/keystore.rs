//! The encrypted form of a key: Web3 Secret Storage version 3, as geth and other Ethereum wallets write it. The cipher
//! is AES-128 in counter mode. A Keccak-256 MAC is checked before decryption.

use aes::Aes128;
use alloy_primitives::{Address, hex, keccak256};
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use uuid::Builder;
use zeroize::Zeroizing;

use crate::keys::kdf::Kdf;
use crate::keys::keystore_error::KeystoreError;

const VERSION: u64 = 3;
const CIPHER: &str = "aes-128-ctr";

/// An encrypted key. Contains no secret bytes.
#[derive(Serialize, Deserialize)]
pub(super) struct Keystore {
    /// The address of the key. The standard makes it optional, and some wallets omit it for privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    #[serde(default)]
    id: String,
    version: u64,
}

#[derive(Serialize, Deserialize)]
struct Crypto {
    cipher: String,
    ciphertext: String,
    cipherparams: CipherParams,
    #[serde(flatten)]
    kdf: Kdf,
    mac: String,
}

#[derive(Serialize, Deserialize)]
struct CipherParams {
    iv: String,
}

impl Keystore {
    /// Parses a keystore. Errors omit the parser's message, which may quote the file.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, KeystoreError> {
        let read: Self = serde_json::from_slice(json).map_err(|_form| {
            KeystoreError::Format("it is not a Web3 Secret Storage file with scrypt or pbkdf2")
        })?;
        if read.version != VERSION || read.crypto.cipher != CIPHER {
            return Err(KeystoreError::Format("its version must be 3 and its cipher aes-128-ctr"));
        }
        Ok(read)
    }

    pub(super) fn to_json(&self) -> Result<String, KeystoreError> {
        serde_json::to_string_pretty(self)
            .map_err(|_never| KeystoreError::Format("it cannot be written"))
    }

    /// The address of the key according to the file.
    pub(super) fn address(&self) -> Option<Address> {
        let text = self.address.as_deref()?;
        // An invalid address becomes zero, which matches no key.
        Some(text.parse().unwrap_or_default())
    }

    /// Encrypts a key. `kdf` contains the salt. The random `iv` and the derived key are used only once.
    pub(super) fn seal(
        secret: &[u8; 32],
        address: Address,
        password: &[u8],
        kdf: Kdf,
        iv: &[u8; 16],
        id: [u8; 16],
    ) -> Result<Self, KeystoreError> {
        let key = kdf.derive(password)?;
        let (cipher_key, mac_key) = split_key(&key)?;
        let mut text = Zeroizing::new(*secret);
        Ctr128BE::<Aes128>::new(cipher_key.into(), iv.into()).apply_keystream(text.as_mut_slice());
        let mac = mac(mac_key, &text);
        Ok(Self {
            address: Some(hex::encode(address)),
            crypto: Crypto {
                cipher: CIPHER.to_owned(),
                ciphertext: hex::encode(text.as_slice()),
                cipherparams: CipherParams { iv: hex::encode(iv) },
                kdf,
                mac: hex::encode(mac),
            },
            id: Builder::from_random_bytes(id).into_uuid().to_string(),
            version: VERSION,
        })
    }

    /// Decrypts the key.
    pub(super) fn open(&self, password: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeystoreError> {
        let iv: [u8; 16] = bytes(&self.crypto.cipherparams.iv)?;
        let wanted: [u8; 32] = bytes(&self.crypto.mac)?;
        let mut text = Zeroizing::new(bytes::<32>(&self.crypto.ciphertext)?);
        let key = self.crypto.kdf.derive(password)?;
        let (cipher_key, mac_key) = split_key(&key)?;
        if !bool::from(mac(mac_key, &text).ct_eq(&wanted)) {
            return Err(KeystoreError::WrongPassword);
        }
        Ctr128BE::<Aes128>::new(cipher_key.into(), (&iv).into())
            .apply_keystream(text.as_mut_slice());
        Ok(text)
    }
}

/// Splits the derived key: one half encrypts, the other authenticates.
fn split_key(key: &[u8; 32]) -> Result<(&[u8; 16], &[u8; 16]), KeystoreError> {
    let (cipher, rest) = key.split_first_chunk().ok_or(KeystoreError::KDF_OUT_OF_BOUNDS)?;
    let mac = rest.try_into().map_err(|_length| KeystoreError::KDF_OUT_OF_BOUNDS)?;
    Ok((cipher, mac))
}

fn mac(key: &[u8; 16], ciphertext: &[u8; 32]) -> [u8; 32] {
    let mut input = Zeroizing::new([0; 48]);
    let (front, back) = input.split_at_mut(16);
    front.copy_from_slice(key);
    back.copy_from_slice(ciphertext);
    keccak256(input.as_slice()).0
}

fn bytes<const N: usize>(text: &str) -> Result<[u8; N], KeystoreError> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_digits| {
        KeystoreError::Format("one of its values is not hex of the right length")
    })?;
    Ok(bytes)
}
