//! The published vectors in `tests/vectors`. A file that is missing, empty or shorter than its README says is a
//! failure. Each failing case is named.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "an integration test's helpers stand outside #[test]"
)]

use std::collections::BTreeMap;
use std::fs;

use alloy_primitives::B256;
use bursar_core::derivation::{DerivationPath, Layout};
use bursar_engine::vault::derive::{PrivateKey, private_key};
use bursar_engine::vault::sealed::{self, Nonce, SealError, Sealed};
use bursar_engine::vault::seed::Seed;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

fn vectors(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field].as_str().unwrap_or_else(|| panic!("no text {field} in {case}"))
}

fn bytes(case: &Value, field: &str) -> Vec<u8> {
    let hexadecimal = text(case, field);
    hex::decode(hexadecimal.strip_prefix("0x").unwrap_or(hexadecimal)).unwrap()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a Vec<Value> {
    value[field].as_array().unwrap_or_else(|| panic!("no list {field}"))
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

fn assert_none_failed(failed: Vec<String>) {
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}

/// Runs a Wycheproof case. Returns the reason if it fails.
fn aes_gcm_failure(case: &Value, nonce_fits: bool) -> Option<String> {
    let (aad, message, iv) = (bytes(case, "aad"), bytes(case, "msg"), bytes(case, "iv"));
    let key: [u8; 32] = bytes(case, "key").try_into().unwrap();
    let nonce = || Nonce::try_from(iv.as_slice());
    if !nonce_fits {
        return (nonce().err() != Some(SealError::NonceSize)).then(|| "nonce taken".to_owned());
    }
    let expected = [bytes(case, "ct"), bytes(case, "tag")].concat();
    let opened = sealed::open(&key, &aad, &Sealed::from_parts(nonce().unwrap(), expected.clone()));
    if text(case, "result") != "valid" {
        return opened.is_ok().then(|| "opened".to_owned());
    }
    if opened.ok().as_deref() != Some(&message) {
        return Some("not opened".to_owned());
    }
    let sealed = sealed::seal_under(nonce().unwrap(), &key, &aad, &message).unwrap();
    (sealed.ciphertext() != expected).then(|| "sealed otherwise".to_owned())
}

#[test]
fn the_wrapper_agrees_with_wycheproof_and_takes_no_other_nonce_size() {
    let file = vectors("wycheproof-aes-256-gcm.json");
    let (mut run, mut refused, mut failed) = (BTreeMap::new(), 0, Vec::new());
    for group in list(&file, "testGroups") {
        assert_eq!((group["keySize"].as_u64(), group["tagSize"].as_u64()), (Some(256), Some(128)));
        let nonce_fits = group["ivSize"].as_u64() == Some(96);
        for case in list(group, "tests") {
            if nonce_fits {
                *run.entry(text(case, "result").to_owned()).or_insert(0) += 1;
            } else {
                refused += 1;
            }
            let failure = aes_gcm_failure(case, nonce_fits);
            failed.extend(failure.map(|why| format!("tcId {}: {why}", case["tcId"])));
        }
    }
    assert_none_failed(failed);
    let counts: Vec<(&str, i32)> = run.iter().map(|(result, n)| (result.as_str(), *n)).collect();
    assert_eq!((counts, refused), (vec![("invalid", 27), ("valid", 39)], 39));
}

/// Returns the path for the layout and index of a case, and checks that it is the one that the case names.
fn path_of(case: &Value) -> DerivationPath {
    let index = || u32::try_from(case["index"].as_u64().unwrap()).unwrap();
    let layout: Layout = text(case, "layout").parse().unwrap();
    let path = match layout.template() {
        Some(template) => template.path(index()).unwrap(),
        None => DerivationPath::parse(text(case, "path")).unwrap(),
    };
    assert_eq!(path.to_string(), text(case, "path"));
    assert_eq!(DerivationPath::parse(text(case, "path")), Ok(path.clone()));
    path
}

#[test]
fn every_phrase_gives_the_published_entropy_seed_keys_and_addresses() {
    let file = vectors("bip39-addresses.json");
    let (mut phrases, mut addresses, mut failed) = (0, 0, Vec::new());
    for case in list(&file, "cases") {
        phrases += 1;
        let seed = Seed::from_phrase(&secret(text(case, "mnemonic"))).unwrap();
        let stretched = seed.bip39_seed(&secret(text(case, "passphrase"))).unwrap();
        let facts = [
            seed.expose_entropy() == bytes(case, "entropy"),
            stretched.expose_secret().as_slice() == bytes(case, "seed"),
            seed.phrase().unwrap().as_str() == text(case, "mnemonic"),
            seed.word_count() == text(case, "mnemonic").split(' ').count(),
        ];
        if facts != [true; 4] {
            failed.push(format!("{}: {facts:?}", case["name"]));
        }
        for row in list(case, "addresses") {
            addresses += 1;
            let key = private_key(&stretched, &path_of(row)).unwrap();
            let same_key = key.expose_bytes().as_slice() == bytes(row, "private_key");
            // `Display` writes the EIP-55 form, which the file contains.
            if !same_key || key.address().to_string() != text(row, "address") {
                failed.push(format!("{} {}", case["name"], row["path"]));
            }
        }
    }
    assert_none_failed(failed);
    assert_eq!((phrases, addresses), (8, 168));
}

#[test]
fn invalid_phrases_are_rejected_and_loose_typing_is_accepted() {
    let file = vectors("bip39-addresses.json");
    let mut failed = Vec::new();
    let bad = list(&file, "invalid_mnemonics");
    for case in bad {
        if Seed::from_phrase(&secret(text(case, "mnemonic"))).is_ok() {
            failed.push(format!("taken: {}", case["why"]));
        }
    }
    let loose = list(&file, "normalised_inputs");
    for case in loose {
        let same = list(&file, "cases").iter().find(|known| known["name"] == case["same_as"]);
        let entropy = bytes(same.unwrap(), "entropy");
        match Seed::from_phrase(&secret(text(case, "input"))) {
            Ok(seed) if seed.expose_entropy() == entropy => {}
            other => failed.push(format!("{}: {other:?}", case["why"])),
        }
    }
    assert_none_failed(failed);
    assert_eq!((bad.len(), loose.len()), (7, 4));
}

#[test]
fn an_invalid_derivation_path_is_rejected() {
    let file = vectors("bip39-addresses.json");
    let bad = list(&file, "invalid_paths");
    let taken = bad.iter().filter(|case| DerivationPath::parse(text(case, "path")).is_ok());
    assert_none_failed(taken.map(|case| case["why"].to_string()).collect());
    assert_eq!(bad.len(), 12);
}

#[test]
fn a_digest_is_signed_with_the_published_bytes_every_time() {
    let file = vectors("eip712-x402.json");
    let cases = list(&file, "cases");
    let mut failed = Vec::new();
    for case in cases {
        let bytes_of_key: [u8; 32] =
            bytes(&file["keys"], text(case, "signer_key")).try_into().unwrap();
        let key = PrivateKey::from_bytes(&bytes_of_key).unwrap();
        let digest = B256::from_slice(&bytes(case, "digest"));
        let signature = key.sign_digest(&digest).unwrap();
        let again = key.sign_digest(&digest).unwrap();
        let facts = [
            signature.as_slice() == bytes(case, "signature"),
            signature == again,
            Some(u64::from(signature[64])) == case["v"].as_u64(),
            key.address().to_string() == text(case, "signer"),
        ];
        if facts != [true; 4] {
            failed.push(format!("{}: {facts:?}", case["id"]));
        }
    }
    assert_none_failed(failed);
    assert_eq!(cases.len(), 56);
}
