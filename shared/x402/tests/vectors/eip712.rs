//! Tests against eip712-x402.json: recomputes every hash, recovers every signer, and checks that no look-alike passes
//! for the original.

use alloy_primitives::{B256, U256, uint};
use bursar_core::networks::{self, ChainId};
use bursar_x402::typed_data::{TransferWithAuthorization, struct_hash};
use bursar_x402::{Authorization, Signature65, SignatureError, TokenDomain, recover};
use k256::ecdsa::SigningKey;
use serde_json::Value;

use crate::messages::{address, domain_of, hashes_of, number, transfer, word};
use crate::{report, text, vectors};

fn cases() -> (Value, Vec<Value>) {
    let file = vectors!("eip712-x402.json");
    let cases = file["cases"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 56);
    (file, cases)
}

fn signature_of(case: &Value) -> Signature65 {
    text(case, "signature").parse().unwrap()
}

/// Signs a digest with the key of a case (deterministic, RFC 6979).
fn signed(file: &Value, case: &Value, digest: B256) -> Signature65 {
    let key = word(&file["keys"], text(case, "signer_key"));
    let key = SigningKey::from_slice(key.as_slice()).unwrap();
    let (scalars, id) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    let (r, s) = scalars.split_bytes();
    Signature65::new(B256::from_slice(&r), B256::from_slice(&s), id.to_byte()).unwrap()
}

/// Returns the names of the values that differ from the file.
fn differing_values(file: &Value, case: &Value) -> Vec<&'static str> {
    let hashes = hashes_of(case);
    let signature = signature_of(case);
    let parts = (word(case, "r"), word(case, "s"), case["v"].as_u64().unwrap());
    let checks = [
        (hashes.type_text == text(case, "type_string"), "type_string"),
        (hashes.type_hash == word(case, "type_hash"), "type_hash"),
        (domain_of(case).separator() == word(case, "domain_separator"), "domain_separator"),
        (hashes.struct_hash == word(case, "struct_hash"), "struct_hash"),
        (hashes.digest == word(case, "digest"), "digest"),
        (recover(hashes.digest, &signature) == Ok(address(case, "signer")), "signer"),
        (signature.to_hex() == text(case, "signature"), "text of the signature"),
        (parts == (signature.r(), signature.s(), u64::from(signature.v())), "r, s, v"),
        (signed(file, case, hashes.digest) == signature, "signing again"),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
}

#[test]
fn every_case_has_its_hashes_and_its_signer() {
    let (file, cases) = cases();
    let faults = cases.iter().map(|case| (text(case, "id"), differing_values(&file, case)));
    let failed: Vec<_> = faults
        .filter(|(_, faults)| !faults.is_empty())
        .map(|(id, faults)| format!("{id}: {}", faults.join(", ")))
        .collect();
    report(&failed);
}

/// Converts a case to the types of production, if its times fit into 64 bits. Other signers may use 256-bit times.
fn to_production_types(case: &Value) -> Option<(TokenDomain, Authorization)> {
    let TransferWithAuthorization { from, to, value, validAfter, validBefore, nonce } =
        transfer(&case["message"]);
    let (valid_after, valid_before) = (validAfter.try_into().ok()?, validBefore.try_into().ok()?);
    let domain = &case["domain"];
    let domain = TokenDomain {
        name: text(domain, "name").to_owned(),
        version: text(domain, "version").to_owned(),
        chain: ChainId(number(domain, "chainId").to()),
        contract: address(domain, "verifyingContract"),
    };
    Some((domain, Authorization { from, to, value, valid_after, valid_before, nonce }))
}

#[test]
fn production_hashes_transfers_as_the_vectors_do() {
    let (_, cases) = cases();
    let (mut failed, mut of_the_table, mut look_alikes) = (Vec::new(), 0, 0);
    let transfers = |case: &&Value| text(case, "primary_type") == "TransferWithAuthorization";
    for case in cases.iter().filter(transfers) {
        let id = text(case, "id");
        let Some((domain, terms)) = to_production_types(case) else { continue };
        let hashes = [domain.separator(), struct_hash(&terms), domain.digest(&terms)];
        if hashes != ["domain_separator", "struct_hash", "digest"].map(|key| word(case, key)) {
            failed.push(id.to_owned());
        }
        let table = TokenDomain::of_stablecoin(networks::by_chain(domain.chain).unwrap());
        if id.starts_with("twa-") {
            of_the_table += 1;
            if table != domain {
                failed.push(format!("{id}: not the domain of the table"));
            }
        } else {
            look_alikes += 1;
        }
    }
    report(&failed);
    // There are 32 transfers. Three of them, one per token, do not fit the types of production: they are valid until
    // 2^256 - 1.
    assert_eq!((of_the_table, look_alikes), (19, 10));
}

#[test]
fn a_look_alike_signature_names_someone_else_under_the_original() {
    let (_, cases) = cases();
    let (mut failed, mut pairs) = (Vec::new(), 0);
    for case in cases.iter().filter(|case| case.get("must_differ_from").is_some()) {
        pairs += 1;
        let twin = text(case, "must_differ_from");
        let original = cases.iter().find(|case| text(case, "id") == twin).unwrap();
        assert_eq!(text(case, "signer"), text(original, "signer"));
        let (ours, theirs) = (hashes_of(case).digest, hashes_of(original).digest);
        let named = recover(theirs, &signature_of(case));
        if ours == theirs || named == Ok(address(case, "signer")) {
            failed.push(text(case, "id").to_owned());
        }
    }
    report(&failed);
    assert_eq!(pairs, 16);
}

#[test]
fn the_malleable_twin_and_the_wrong_parity_of_a_signature_are_worth_nothing() {
    let order: U256 =
        uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    let (_, cases) = cases();
    for case in &cases {
        let (id, whole) = (text(case, "id"), signature_of(case));
        let high = B256::from(order - U256::from_be_bytes(whole.s().0));
        for v in [27, 28, 0, 1] {
            assert_eq!(Signature65::new(whole.r(), high, v), Err(SignatureError::HighS), "{id}");
        }
        let flipped = Signature65::new(whole.r(), whole.s(), 55 - whole.v()).unwrap();
        assert_ne!(recover(word(case, "digest"), &flipped), Ok(address(case, "signer")), "{id}");
    }
}
