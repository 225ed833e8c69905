//! Owns the only cipher of the wallet file: AES-256-GCM with 96-bit nonces and 128-bit tags. The types exclude
//! other key and nonce sizes, and unauthenticated bytes are never returned.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit};
use zeroize::Zeroizing;

/// The size of a nonce in bytes.
pub const NONCE_BYTES: usize = 12;
/// The size in bytes of the tag at the end of a ciphertext.
pub const TAG_BYTES: usize = 16;

/// Why a message could not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the nonce is not 12 bytes long")]
    NonceSize,
    #[error("the message fails authentication")]
    NotAuthentic,
    #[error("the message is too long")]
    TooLong,
    #[error("the system provides no random bytes")]
    NoEntropy,
}

/// A nonce, which sealing consumes.
///
/// It is not `Clone`: using a nonce twice breaks GCM for its key.
#[derive(Debug)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// Returns 96 random bits.
    ///
    /// NIST SP 800-38D allows 2^32 messages per key, far more than a wallet saves.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn random() -> Result<Self, SealError> {
        let mut bytes = [0; NONCE_BYTES];
        getrandom::fill(&mut bytes).map_err(|_system| SealError::NoEntropy)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<&[u8]> for Nonce {
    type Error = SealError;

    /// Reads a nonce from a file.
    fn try_from(bytes: &[u8]) -> Result<Self, SealError> {
        bytes.try_into().map(Self).map_err(|_length| SealError::NonceSize)
    }
}

/// A sealed message: the nonce, and the ciphertext with its tag at the end.
///
/// These bytes are public.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    nonce: [u8; NONCE_BYTES],
    ciphertext: Vec<u8>,
}

impl Sealed {
    /// Creates a message from the bytes of a file.
    ///
    /// Nothing is verified before [`open`].
    pub fn from_parts(nonce: Nonce, ciphertext: Vec<u8>) -> Self {
        Self { nonce: nonce.0, ciphertext }
    }

    /// Returns the nonce.
    pub fn nonce(&self) -> &[u8; NONCE_BYTES] {
        &self.nonce
    }

    /// Returns the ciphertext, which ends with the tag.
    pub fn ciphertext(&self) -> &[u8] {
        &self.ciphertext
    }
}

/// Seals a message under a fresh random nonce; `aad` is authenticated with it.
///
/// # Errors
/// The system provides no random bytes, or the message is too long.
pub fn seal(key: &[u8; 32], aad: &[u8], plaintext: &[u8]) -> Result<Sealed, SealError> {
    seal_under(Nonce::random()?, key, aad, plaintext)
}

/// Seals a message under a nonce that the caller guarantees to be unused.
///
/// It is only for [`seal`], and for tests with published vectors.
///
/// # Errors
/// The message is too long.
pub fn seal_under(
    nonce: Nonce,
    key: &[u8; 32],
    aad: &[u8],
    plaintext: &[u8],
) -> Result<Sealed, SealError> {
    // Reserve room for the tag from the start: a buffer that grows would leave the plaintext behind.
    let room = plaintext.len().checked_add(TAG_BYTES).ok_or(SealError::TooLong)?;
    let mut buffer = Zeroizing::new(Vec::with_capacity(room));
    buffer.extend_from_slice(plaintext);
    let tag = Aes256Gcm::new(key.into())
        .encrypt_inout_detached((&nonce.0).into(), aad, InOutBuf::from(buffer.as_mut_slice()))
        .map_err(|_length| SealError::TooLong)?;
    buffer.extend_from_slice(&tag);
    Ok(Sealed { nonce: nonce.0, ciphertext: std::mem::take(&mut *buffer) })
}

/// Decrypts a message and returns its plaintext.
///
/// The tag is verified before anything is decrypted.
///
/// # Errors
/// The key, the context `aad` or the message does not match the tag.
pub fn open(key: &[u8; 32], aad: &[u8], message: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let (body, tag) =
        message.ciphertext.split_last_chunk::<TAG_BYTES>().ok_or(SealError::NotAuthentic)?;
    let mut buffer = Zeroizing::new(body.to_vec());
    Aes256Gcm::new(key.into())
        .decrypt_inout_detached(
            (&message.nonce).into(),
            aad,
            InOutBuf::from(buffer.as_mut_slice()),
            tag.into(),
        )
        .map_err(|_refused| SealError::NotAuthentic)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seal_uses_a_fresh_nonce() {
        let key = [7; 32];
        let sealed: Vec<Sealed> =
            (0..1000).map(|_| seal(&key, b"aad", b"same words").unwrap()).collect();
        let mut nonces: Vec<_> = sealed.iter().map(|one| *one.nonce()).collect();
        nonces.sort_unstable();
        nonces.dedup();
        assert_eq!(nonces.len(), 1000);
        assert!(sealed.iter().all(|one| *open(&key, b"aad", one).unwrap() == b"same words"));
    }

    #[test]
    fn a_wrong_key_context_or_truncated_message_does_not_open() {
        let sealed = seal(&[7; 32], b"wallet a", b"words").unwrap();
        assert!(open(&[8; 32], b"wallet a", &sealed).is_err());
        assert!(open(&[7; 32], b"wallet b", &sealed).is_err());
        for length in 0..sealed.ciphertext().len() {
            let cut = Sealed { ciphertext: sealed.ciphertext[..length].to_vec(), ..sealed.clone() };
            assert_eq!(open(&[7; 32], b"wallet a", &cut), Err(SealError::NotAuthentic));
        }
    }
}
