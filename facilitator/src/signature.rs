//! Signatures: recovers the signer of a digest, and reads the deployment data of a wrapper (EIP-6492).

use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_sol_types::SolValue;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};

use crate::payment::Deployment;

pub use bursar_x402::signature::split;

/// The suffix of a wrapped signature (EIP-6492).
const EIP6492_SUFFIX: [u8; 32] = [
    0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92,
    0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92, 0x64, 0x92,
];

/// Maximum length of a signature in bytes, including its wrapper.
///
/// A signature of a wallet with many owners takes some kilobytes, and each byte costs the signer gas.
pub const SIGNATURE_BYTES_MAX: usize = 8 << 10;

/// A signature without its EIP-6492 wrapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnwrappedSignature {
    pub inner: Bytes,
    pub deployment: Option<Deployment>,
}

/// Removes an EIP-6492 wrapper, if there is one.
///
/// Returns `None` if the wrapper is malformed, or if the signature is longer than [`SIGNATURE_BYTES_MAX`].
pub fn unwrap(signature: &Bytes) -> Option<UnwrappedSignature> {
    if signature.len() > SIGNATURE_BYTES_MAX {
        return None;
    }
    let Some(wrapped) = signature.strip_suffix(&EIP6492_SUFFIX) else {
        return Some(UnwrappedSignature { inner: signature.clone(), deployment: None });
    };
    let (factory, data, inner) =
        <(Address, Bytes, Bytes)>::abi_decode_params_validate(wrapped).ok()?;
    Some(UnwrappedSignature { inner, deployment: Some(Deployment { factory, data }) })
}

/// Returns a signature of 65 bytes with `v` as contracts expect it, 27 or 28.
///
/// Any other signature is returned unchanged.
pub fn with_contract_v(signature: &Bytes) -> Bytes {
    match split(signature) {
        Some((v, r, s)) => [r.as_slice(), s.as_slice(), &[v]].concat().into(),
        None => signature.clone(),
    }
}

/// Returns the address whose key signed a digest.
///
/// Returns `None` for signatures that tokens reject: they do not have 65 bytes, a scalar is out of range, or `s` is the
/// higher of its two possible values (EIP-2).
pub fn signer(digest: &B256, signature: &[u8]) -> Option<Address> {
    let (v, _r, _s) = split(signature)?;
    let id = if v == 28 { RecoveryId::One } else { RecoveryId::Zero };
    let signature = RecoverableSignature::from_compact(signature.get(..64)?, id).ok()?;
    let plain = signature.to_standard();
    let mut low = plain;
    low.normalize_s();
    if low != plain {
        return None;
    }
    let key = SECP256K1.recover_ecdsa(Message::from_digest(digest.0), &signature).ok()?;
    let point = key.serialize_uncompressed();
    Some(Address::from_word(keccak256(point.get(1..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{U256, address, b256, hex, uint};

    /// A case of the handbook's test vectors, which two other implementations produced.
    const DIGEST: B256 =
        b256!("0xc5050269c5890eba8b551a91d3c604fe4722c555a96e774cfef29f09825668cb");
    const PAYER: Address = address!("0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A");
    const SIGNED: [u8; 65] = hex!(
        "66bb15e0192d2cb47eec6ec5d393b97781528842ee517c1299f19cc4230932a6"
        "156cb3e312b616e0b778660dc23e9fd2e747f4ef5a0342f66e8cf35209722a2b1c"
    );

    #[test]
    fn signer_is_recovered_from_both_encodings_of_v() {
        assert_eq!(signer(&DIGEST, &SIGNED), Some(PAYER));
        let mut bare = SIGNED;
        bare[64] = 1;
        assert_eq!(signer(&DIGEST, &bare), Some(PAYER));
        assert_eq!(split(&bare).unwrap().0, 28);
        for v in [2, 26, 29, 255] {
            bare[64] = v;
            assert_eq!(signer(&DIGEST, &bare), None);
        }
        assert_ne!(signer(&B256::ZERO, &SIGNED), Some(PAYER));
    }

    #[test]
    fn signatures_that_tokens_reject_have_no_signer() {
        const ORDER: U256 =
            uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
        let (_v, r, s) = split(&SIGNED).unwrap();
        let high = ORDER - U256::from_be_bytes(s.0);
        let of = |r: U256, s: U256, v: u8| {
            let mut bytes = r.to_be_bytes::<32>().to_vec();
            bytes.extend(s.to_be_bytes::<32>());
            bytes.push(v);
            bytes
        };
        let r = U256::from_be_bytes(r.0);
        assert_eq!(signer(&DIGEST, &of(r, high, 27)), None, "the malleable twin");
        for (r, s) in [(U256::ZERO, high), (r, U256::ZERO), (ORDER, U256::from(1)), (r, ORDER)] {
            assert_eq!(signer(&DIGEST, &of(r, s, 27)), None);
        }
        assert_eq!(signer(&DIGEST, &SIGNED[..64]), None);
        assert_eq!(signer(&DIGEST, &[]), None);
    }

    #[test]
    fn eip6492_wrapper_is_removed_and_a_broken_one_rejected() {
        let plain = Bytes::copy_from_slice(&SIGNED);
        let bare = UnwrappedSignature { inner: plain.clone(), deployment: None };
        assert_eq!(unwrap(&plain), Some(bare));
        let deployment = Deployment { factory: PAYER, data: Bytes::from_static(&[1, 2, 3]) };
        let parts = (deployment.factory, deployment.data.clone(), plain.clone());
        let mut wrapped = parts.abi_encode_params();
        wrapped.extend(EIP6492_SUFFIX);
        let whole = UnwrappedSignature { inner: plain, deployment: Some(deployment) };
        assert_eq!(unwrap(&wrapped.clone().into()), Some(whole));
        assert_eq!(unwrap(&wrapped[20..].to_vec().into()), None);
        assert_eq!(unwrap(&EIP6492_SUFFIX.to_vec().into()), None);
        assert_eq!(unwrap(&vec![0; SIGNATURE_BYTES_MAX + 1].into()), None);
    }
}
