//! Wycheproof's ECDSA cases (Apache-2.0) against [`Signature65`] and [`recover`]. A case passes if its scalars are
//! acceptable, the signature verifies, and one of the two parities recovers the signer.

use alloy_primitives::{Address, B256, keccak256};
use bursar_x402::{Signature65, SignatureError, recover};
use k256::ecdsa::signature::hazmat::PrehashVerifier;
use k256::ecdsa::{Signature, VerifyingKey};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{report, text, vectors};

type Scalars = Option<([u8; 32], [u8; 32])>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The signature verifies, and its signer is recovered.
    Accepted,
    /// The signature verifies, but the x of its point is beyond the group order. A `v` of 27 or 28 cannot express that,
    /// so the signer is not recovered.
    LargeX,
    HighS,
    Refused,
}

fn bytes(value: &Value, key: &str) -> Vec<u8> {
    hex::decode(text(value, key)).unwrap()
}

fn answer(group: &Value, test: &Value, scalars: Scalars) -> Answer {
    let Some((r, s)) = scalars else { return Answer::Refused };
    let point = bytes(&group["publicKey"], "uncompressed");
    let digest = B256::from_slice(&Sha256::digest(bytes(test, "msg")));
    let named = [27, 28].map(|v| recover(digest, &Signature65::new(r.into(), s.into(), v)?));
    if named.contains(&Err(SignatureError::HighS)) {
        return Answer::HighS;
    }
    let is_named = named.contains(&Ok(Address::from_word(keccak256(&point[1..]))));
    match (verifies(&point, digest, r, s), is_named) {
        (true, true) => Answer::Accepted,
        (true, false) => Answer::LargeX,
        (false, false) => Answer::Refused,
        (false, true) => panic!("tcId {}: recovered, but does not verify", test["tcId"]),
    }
}

/// Verifies a signature by plain ECDSA, without recovery.
fn verifies(point: &[u8], digest: B256, r: [u8; 32], s: [u8; 32]) -> bool {
    let key = VerifyingKey::from_sec1_bytes(point).unwrap();
    let signature = Signature::from_scalars(r, s);
    signature.is_ok_and(|signature| key.verify_prehash(digest.as_slice(), &signature).is_ok())
}

/// Parses `SEQUENCE { INTEGER r, INTEGER s }` in strict DER. Production reads no DER.
fn from_der(sig: &[u8]) -> Scalars {
    let body = match sig {
        [0x30, length @ 0..=0x7f, body @ ..] if usize::from(*length) == body.len() => body,
        _ => return None,
    };
    let (r, rest) = integer(body)?;
    let (s, rest) = integer(rest)?;
    rest.is_empty().then_some((r, s))
}

fn integer(text: &[u8]) -> Option<([u8; 32], &[u8])> {
    let [0x02, length @ 1..=33, rest @ ..] = text else { return None };
    let (digits, rest) = rest.split_at_checked(usize::from(*length))?;
    let digits = match digits {
        [0, tail @ ..] if tail.first().is_none_or(|next| *next >= 0x80) => tail,
        [1..=0x7f, ..] => digits,
        _ => return None,
    };
    let mut scalar = [0; 32];
    scalar.get_mut(32usize.checked_sub(digits.len())?..)?.copy_from_slice(digits);
    Some((scalar, rest))
}

fn from_p1363(sig: &[u8]) -> Scalars {
    let (r, s) = sig.split_first_chunk::<32>()?;
    Some((*r, s.try_into().ok()?))
}

/// The number of cases of each kind and result.
#[derive(Debug, Default)]
struct Tally {
    valid_accepted: usize,
    valid_large_x: usize,
    valid_high_s: usize,
    invalid_refused: usize,
    failed: Vec<String>,
}

impl Tally {
    fn counts(&self) -> [usize; 4] {
        [self.valid_accepted, self.valid_large_x, self.valid_high_s, self.invalid_refused]
    }
}

fn tally(file: &Value, scalars: impl Fn(&[u8]) -> Scalars) -> Tally {
    let mut tally = Tally::default();
    for group in file["testGroups"].as_array().unwrap() {
        for test in group["tests"].as_array().unwrap() {
            let given = answer(group, test, scalars(&bytes(test, "sig")));
            match (text(test, "result"), given) {
                ("valid", Answer::Accepted) => tally.valid_accepted += 1,
                ("valid", Answer::LargeX) => tally.valid_large_x += 1,
                ("valid", Answer::HighS) => tally.valid_high_s += 1,
                ("invalid", Answer::Refused | Answer::HighS) => tally.invalid_refused += 1,
                (wanted, given) => {
                    let (id, comment) = (&test["tcId"], text(test, "comment"));
                    tally.failed.push(format!("tcId {id}: {wanted}, but {given:?} ({comment})"));
                }
            }
        }
    }
    tally
}

#[test]
fn der_signatures_are_judged_as_published_low_s_demanded() {
    let tally = tally(&vectors!("wycheproof-ecdsa-secp256k1-sha256-bitcoin.json"), from_der);
    report(&tally.failed);
    // Of 162 valid cases, one (tcId 346) has no Ethereum form; 301 cases are invalid.
    assert_eq!(tally.counts(), [161, 1, 0, 301]);
}

#[test]
fn plain_signatures_are_judged_as_published_but_for_69_with_high_s() {
    let tally = tally(&vectors!("wycheproof-ecdsa-secp256k1-sha256-p1363.json"), from_p1363);
    report(&tally.failed);
    // Of 163 valid cases, 69 have a high s; 79 cases are invalid.
    assert_eq!(tally.counts(), [94, 0, 69, 79]);
}
