//! A secp256k1 signature in Ethereum's form, and the recovery of its signer. This module never signs or sees a key.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{Address, B256, keccak256};
use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

/// Why a signature is not valid for a token contract, or has no signer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("a signature is 0x and 130 hex digits")]
    Text,
    #[error("the recovery byte must be 27, 28, 0 or 1")]
    RecoveryByte,
    #[error("r or s is zero or too large")]
    Scalar,
    #[error("s is in the upper half of the group order")]
    HighS,
    #[error("no signer can be recovered from this signature")]
    NoSigner,
}

/// A signature `r ‖ s ‖ v` that a token contract can accept.
///
/// The scalars are in range, `s` is in the lower half (EIP-2, which token contracts follow), and `v` is 27 or 28.
/// Construction and deserialization check all three, so the malleable twin of a signature cannot exist as a
/// `Signature65`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(B256, B256, u8)", into = "(B256, B256, u8)")]
pub struct Signature65 {
    r: B256,
    s: B256,
    v: u8,
}

impl Signature65 {
    /// Checks the parts of a signature.
    ///
    /// `v` may also be the parity 0 or 1, which some signers return. It becomes 27 or 28, because token contracts
    /// accept no other value.
    ///
    /// # Errors
    /// [`SignatureError::RecoveryByte`], [`SignatureError::Scalar`] or [`SignatureError::HighS`].
    pub fn new(r: B256, s: B256, v: u8) -> Result<Self, SignatureError> {
        let v = match v {
            0 | 27 => 27,
            1 | 28 => 28,
            _other => return Err(SignatureError::RecoveryByte),
        };
        let scalars = scalars(&r, &s)?;
        if scalars.normalize_s().is_some() {
            return Err(SignatureError::HighS);
        }
        Ok(Self { r, s, v })
    }

    /// Checks a signature of 65 bytes, like [`Signature65::new`].
    pub fn from_bytes(bytes: &[u8; 65]) -> Result<Self, SignatureError> {
        let (r, rest) = bytes.split_first_chunk::<32>().ok_or(SignatureError::Text)?;
        let (s, v) = rest.split_first_chunk::<32>().ok_or(SignatureError::Text)?;
        let [v] = v else { return Err(SignatureError::Text) };
        Self::new(B256::new(*r), B256::new(*s), *v)
    }

    /// Returns the scalar `r`.
    pub fn r(&self) -> B256 {
        self.r
    }

    /// Returns the scalar `s`.
    pub fn s(&self) -> B256 {
        self.s
    }

    /// Returns the recovery byte, 27 or 28.
    pub fn v(&self) -> u8 {
        self.v
    }

    /// Returns `r`, `s` and `v`.
    pub fn to_bytes(&self) -> [u8; 65] {
        let mut bytes = [0; 65];
        let parts = self.r.iter().chain(self.s.iter()).chain(std::iter::once(&self.v));
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = *part;
        }
        bytes
    }

    /// Returns `0x` and 130 lower-case hex digits.
    ///
    /// Any bearer of a signature can redeem it, so the text is for its owner only. [`fmt::Debug`] shows only the
    /// beginning.
    pub fn to_hex(&self) -> String {
        format!("0x{}", hex::encode(self.to_bytes()))
    }
}

impl FromStr for Signature65 {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let digits = text.strip_prefix("0x").ok_or(SignatureError::Text)?;
        let mut bytes = [0; 65];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_hex| SignatureError::Text)?;
        Self::from_bytes(&bytes)
    }
}

impl TryFrom<(B256, B256, u8)> for Signature65 {
    type Error = SignatureError;
    fn try_from((r, s, v): (B256, B256, u8)) -> Result<Self, SignatureError> {
        Self::new(r, s, v)
    }
}

impl From<Signature65> for (B256, B256, u8) {
    fn from(whole: Signature65) -> Self {
        (whole.r, whole.s, whole.v)
    }
}

/// Shows four bytes of `r`: enough to distinguish signatures in a log, but not enough to redeem them.
impl fmt::Debug for Signature65 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, _rest) = self.r.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
        write!(f, "Signature65(0x{}…)", hex::encode(start))
    }
}

/// Returns the address whose key signed `digest`.
///
/// The caller must compare it with the payer, because nearly every well-formed signature recovers to *some* address.
///
/// # Errors
/// [`SignatureError::NoSigner`] if no public key fits the signature.
pub fn recover(digest: B256, signature: &Signature65) -> Result<Address, SignatureError> {
    let scalars = scalars(&signature.r, &signature.s)?;
    // Ethereum's `v` cannot express the recovery ids 2 and 3 (an R beyond the group order).
    let parity = RecoveryId::new(signature.v == 28, false);
    VerifyingKey::recover_from_prehash(digest.as_slice(), &scalars, parity)
        .map_err(|_point| SignatureError::NoSigner)
        .and_then(|key| address_of(&key))
}

/// Returns the last 20 bytes of Keccak-256 over the uncompressed point without its tag byte.
fn address_of(key: &VerifyingKey) -> Result<Address, SignatureError> {
    let point = key.to_encoded_point(false);
    let (_tag, coordinates) = point.as_bytes().split_first().ok_or(SignatureError::NoSigner)?;
    Ok(Address::from_word(keccak256(coordinates)))
}

fn scalars(r: &B256, s: &B256) -> Result<Signature, SignatureError> {
    Signature::from_scalars(r.0, s.0).map_err(|_range| SignatureError::Scalar)
}

/// Splits a signature of 65 bytes into `v` (27 or 28, as contracts expect), `r` and `s`.
///
/// `None` for a signature of another form.
pub fn split(signature: &[u8]) -> Option<(u8, B256, B256)> {
    let (r, rest) = signature.split_first_chunk::<32>()?;
    let (s, v) = rest.split_first_chunk::<32>()?;
    let v = match v {
        [0 | 27] => 27,
        [1 | 28] => 28,
        _other => return None,
    };
    Some((v, B256::new(*r), B256::new(*s)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{U256, address, b256, uint};
    use k256::ecdsa::SigningKey;

    /// The order of the group (SEC 2, secp256k1).
    const ORDER: U256 =
        uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    /// The address of the key 1, which signs case `twa-base-key-one` of eip712-x402.json.
    const KEY_ONE: Address = address!("0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf");
    const DIGEST: B256 =
        b256!("0xc5050269c5890eba8b551a91d3c604fe4722c555a96e774cfef29f09825668cb");

    fn signed() -> Signature65 {
        let key = SigningKey::from_slice(&U256::from(1).to_be_bytes::<32>()).unwrap();
        let (scalars, id) = key.sign_prehash_recoverable(DIGEST.as_slice()).unwrap();
        let (r, s) = scalars.split_bytes();
        Signature65::new(B256::from_slice(&r), B256::from_slice(&s), id.to_byte()).unwrap()
    }

    #[test]
    fn the_signer_is_recovered_from_its_own_digest_only() {
        assert_eq!(recover(DIGEST, &signed()), Ok(KEY_ONE));
        assert_ne!(recover(keccak256("another"), &signed()), Ok(KEY_ONE));
        let flipped = Signature65::new(signed().r(), signed().s(), 55 - signed().v()).unwrap();
        assert_ne!(recover(DIGEST, &flipped), Ok(KEY_ONE));
    }

    #[test]
    fn both_ways_to_write_the_parity_are_one_signature() {
        let whole = signed();
        let bare = Signature65::new(whole.r(), whole.s(), whole.v() - 27).unwrap();
        assert_eq!(bare, whole);
        for v in (2..27).chain(29..=255) {
            let refused = Signature65::new(whole.r(), whole.s(), v);
            assert_eq!(refused, Err(SignatureError::RecoveryByte), "{v}");
        }
    }

    #[test]
    fn the_malleable_twin_and_scalars_out_of_range_are_refused() {
        let whole = signed();
        let of = |number: U256| B256::from(number.to_be_bytes::<32>());
        let high = of(ORDER - U256::from_be_bytes(whole.s().0));
        assert_eq!(Signature65::new(whole.r(), high, 55 - whole.v()), Err(SignatureError::HighS));
        let half = ORDER >> 1;
        assert!(Signature65::new(whole.r(), of(half), 27).is_ok());
        let above = Signature65::new(whole.r(), of(half + U256::from(1)), 27);
        assert_eq!(above, Err(SignatureError::HighS));
        for bad in [U256::ZERO, ORDER, U256::MAX] {
            let bad = of(bad);
            assert_eq!(Signature65::new(bad, whole.s(), 27), Err(SignatureError::Scalar));
            assert_eq!(Signature65::new(whole.r(), bad, 27), Err(SignatureError::Scalar));
        }
    }

    #[test]
    fn an_r_off_the_curve_has_no_signer() {
        // x = 5 is not on y² = x³ + 7 over the field.
        let nowhere = Signature65::new(B256::with_last_byte(5), signed().s(), 27).unwrap();
        assert_eq!(recover(DIGEST, &nowhere), Err(SignatureError::NoSigner));
    }

    #[test]
    fn hex_and_the_journal_give_back_the_same_signature_and_logs_do_not() {
        let whole = signed();
        let text = whole.to_hex();
        assert_eq!((text.len(), text.parse()), (132, Ok(whole)));
        let short = text.get(..131).unwrap();
        for bad in ["", "0x", short, &format!("{text}0"), text.trim_start_matches("0x")] {
            assert_eq!(bad.parse::<Signature65>(), Err(SignatureError::Text), "{bad}");
        }
        let stored = postcard::to_allocvec(&whole).unwrap();
        assert_eq!(postcard::from_bytes::<Signature65>(&stored).unwrap(), whole);
        let forged = postcard::to_allocvec(&(whole.r(), B256::ZERO, 27u8)).unwrap();
        assert!(postcard::from_bytes::<Signature65>(&forged).is_err());
        assert_eq!(format!("{whole:?}"), format!("Signature65({}…)", text.get(..10).unwrap()));
    }
}
