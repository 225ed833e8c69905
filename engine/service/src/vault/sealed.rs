//! Owns the one cipher of the wallet file: AES-256-GCM with 96-bit nonces and 128-bit tags. Keys and
//! nonces of another size cannot be written down; what fails to authenticate is never returned.

use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::{AeadInOut, Aes256Gcm, KeyInit};
use zeroize::Zeroizing;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;
/// Bytes of the tag that ends a ciphertext.
pub const TAG_BYTES: usize = 16;

/// Why a message was not sealed or not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("a nonce has 12 bytes")]
    NonceSize,
    #[error("the message fails authentication")]
    NotAuthentic,
    #[error("the message is too long")]
    TooLong,
    #[error("the system provides no random bytes")]
    NoEntropy,
}

/// A nonce. No `Clone`, and sealing consumes it: GCM loses its key when one is used twice.
#[derive(Debug)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// 96 random bits. NIST SP 800-38D allows 2³² messages a key, far above a wallet's saves.
    pub fn random() -> Result<Self, SealError> {
        let mut bytes = [0; NONCE_BYTES];
        getrandom::fill(&mut bytes).map_err(|_system| SealError::NoEntropy)?;
        Ok(Self(bytes))
    }
}

impl TryFrom<&[u8]> for Nonce {
    type Error = SealError;

    /// A nonce read back from a file.
    fn try_from(bytes: &[u8]) -> Result<Self, SealError> {
        bytes.try_into().map(Self).map_err(|_length| SealError::NonceSize)
    }
}

/// A sealed message: the nonce, and the ciphertext with its tag at the end. Public bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    nonce: [u8; NONCE_BYTES],
    ciphertext: Vec<u8>,
}

impl Sealed {
    /// A message read back from a file; nothing is verified before it is opened.
    pub fn from_parts(nonce: Nonce, ciphertext: Vec<u8>) -> Self {
        Self { nonce: nonce.0, ciphertext }
    }

    pub fn nonce(&self) -> &[u8; NONCE_BYTES] {
        &self.nonce
    }

    pub fn ciphertext(&self) -> &[u8] {
        &self.ciphertext
    }
}

/// Seals under a fresh random nonce.
pub fn seal(key: &[u8; 32], aad: &[u8], plaintext: &[u8]) -> Result<Sealed, SealError> {
    seal_under(Nonce::random()?, key, aad, plaintext)
}

/// Seals under a nonce that the caller vouches for: [`seal`], and tests with published vectors.
pub fn seal_under(
    nonce: Nonce,
    key: &[u8; 32],
    aad: &[u8],
    plaintext: &[u8],
) -> Result<Sealed, SealError> {
    // Room for the tag from the start: a buffer that grows would leave the plaintext behind.
    let room = plaintext.len().checked_add(TAG_BYTES).ok_or(SealError::TooLong)?;
    let mut buffer = Zeroizing::new(Vec::with_capacity(room));
    buffer.extend_from_slice(plaintext);
    let tag = Aes256Gcm::new(key.into())
        .encrypt_inout_detached((&nonce.0).into(), aad, InOutBuf::from(buffer.as_mut_slice()))
        .map_err(|_length| SealError::TooLong)?;
    buffer.extend_from_slice(&tag);
    Ok(Sealed { nonce: nonce.0, ciphertext: std::mem::take(&mut *buffer) })
}

/// The plaintext, or nothing: the tag is verified before a byte is decrypted.
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
    fn every_seal_takes_a_nonce_of_its_own() {
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
    fn another_key_another_context_or_a_cut_message_opens_nothing() {
        let sealed = seal(&[7; 32], b"wallet a", b"words").unwrap();
        assert!(open(&[8; 32], b"wallet a", &sealed).is_err());
        assert!(open(&[7; 32], b"wallet b", &sealed).is_err());
        for length in 0..sealed.ciphertext().len() {
            let cut = Sealed { ciphertext: sealed.ciphertext[..length].to_vec(), ..sealed.clone() };
            assert_eq!(open(&[7; 32], b"wallet a", &cut), Err(SealError::NotAuthentic));
        }
    }
}
