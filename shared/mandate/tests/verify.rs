//! Mandates of other issuers: signed by eth-account over CPython's text, changed in every byte, and hostile.

#![expect(clippy::unwrap_used, reason = "helpers of an integration test stand outside #[test]")]

use bursar_core::json::{Object, Value, parse};
use bursar_mandate::{BYTES_MAX, Defect, Unreadable, read};

/// The mandates that `make.py` wrote, each with its canonical text and its signer.
fn vectors() -> Vec<(String, String, String)> {
    let lines = include_str!("vectors/mandates.jsonl").lines();
    let cases: Vec<_> = lines
        .map(|line| {
            let case = parse(line.as_bytes(), 16).unwrap();
            let text = |key| case.get(key).and_then(Value::as_str).unwrap().to_owned();
            (case.get("mandate").unwrap().to_compact(), text("text"), text("signer"))
        })
        .collect();
    assert_eq!(cases.len(), 200);
    cases
}

/// Returns the first mandate with one member replaced, or removed.
fn changed(path: &[&str], value: Option<Value>) -> String {
    fn set(object: &Object, path: &[&str], value: Option<&Value>) -> Object {
        let (first, rest) = path.split_first().unwrap();
        let mut out = Object::new();
        for (key, old) in object.iter() {
            if key != *first {
                out.insert(key, old.clone());
            } else if rest.is_empty() {
                value.map(|value| out.insert(key, value.clone()));
            } else {
                out.insert(key, set(old.as_object().unwrap(), rest, value));
            }
        }
        if rest.is_empty() && object.get(first).is_none() {
            value.map(|value| out.insert(*first, value.clone()));
        }
        out
    }
    let [(first, ..), ..] = &vectors()[..] else { unreachable!() };
    let first = parse(first.as_bytes(), 16).unwrap();
    Value::from(set(first.as_object().unwrap(), path, value.as_ref())).to_compact()
}

fn defects(mandate: &str) -> Vec<Defect> {
    read(mandate.as_bytes()).unwrap().defects
}

#[test]
fn mandates_that_eth_account_signed_are_good_and_have_the_text_of_cpython() {
    for (mandate, text, signer) in vectors() {
        let found = read(mandate.as_bytes()).unwrap();
        assert_eq!(found.defects, [], "{mandate}");
        assert_eq!(found.text, text);
        assert_eq!(found.signer.unwrap().to_checksum(None), signer);
        assert!(found.is_good());
    }
}

#[test]
fn no_changed_byte_leaves_a_mandate_good_with_another_text() {
    let [(mandate, text, _), ..] = &vectors()[..] else { unreachable!() };
    let mut refused = 0;
    for at in 0..mandate.len() {
        for bit in 0..8 {
            let mut bytes = mandate.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            match read(&bytes) {
                // The letter case of a hex digit in the signature or of an escape changes no value.
                Ok(found) if found.is_good() => assert_eq!(&found.text, text),
                Ok(_) | Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > mandate.len() * 7, "{refused}");
}

#[test]
fn registry_members_are_outside_the_signature_and_every_other_member_is_inside() {
    for name in ["registryId", "registryUrl"] {
        assert_eq!(defects(&changed(&[name], Some("another".into()))), []);
    }
    assert_eq!(defects(&changed(&["extra"], Some(true.into()))), [Defect::OtherSigner]);
}

#[test]
fn each_malformed_member_is_named() {
    let number = |text: &str| Some(Value::from(text.parse::<bursar_core::json::Number>().unwrap()));
    let limits = ["authorization", "limits"];
    let limit = |name| [limits[0], limits[1], name];
    for huge in ["1000000000000000000000000000000", "1000000000000001", "-1", "1.0", "1e3"] {
        let found = defects(&changed(&limit("dailyLimit"), number(huge)));
        assert_eq!(found, [Defect::Limit("dailyLimit"), Defect::OtherSigner], "{huge}");
    }
    let found = defects(&changed(&limit("dailyLimit"), Some(Value::Null)));
    assert_eq!(found, [Defect::Limit("dailyLimit"), Defect::OtherSigner]);
    let found = defects(&changed(&limit("decimals"), number("19")));
    assert_eq!(found[0], Defect::Member("authorization.limits.decimals"));
    for (path, name) in [
        (&["id"][..], "id"),
        (&["version"], "version"),
        (&["issuedAt"], "issuedAt"),
        (&["agent"], "agent.id"),
        (&["agent", "authKeyFingerprint"], "agent.authKeyFingerprint"),
        (&["authorization", "policyId"], "authorization.policyId"),
        (&["authorization", "networks"], "authorization.networks"),
        (&["wallet"], "wallet.address"),
        (&["issuer", "type"], "issuer.type"),
    ] {
        let found = defects(&changed(path, None));
        assert_eq!(found[0], Defect::Member(name), "{path:?}");
        assert!(found.contains(&Defect::OtherSigner), "{path:?}");
    }
}

#[test]
fn a_signature_is_refused_for_each_of_its_own_reasons() {
    let signature = |key, value: &str| changed(&["signature", key], Some(value.into()));
    assert_eq!(defects(&changed(&["signature"], None)), [Defect::Unsigned]);
    assert_eq!(defects(&changed(&["signature"], Some(Value::Null))), [Defect::Unsigned]);
    assert_eq!(defects(&signature("type", "EIP712")), [Defect::SignatureType]);
    assert_eq!(defects(&signature("signer", "0x12")), [Defect::Member("signature.signer")]);
    let other = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    assert_eq!(defects(&signature("signer", other)), [Defect::OtherSigner]);
    let valid = {
        let [(first, ..), ..] = &vectors()[..] else { unreachable!() };
        let first = parse(first.as_bytes(), 16).unwrap();
        first.get("signature").unwrap().get("value").unwrap().as_str().unwrap().to_owned()
    };
    let (scalars, v) = valid.split_at(130);
    // The parities 0 and 1 are the same signature as 27 and 28, and no other value is one.
    let parity = if v == "1b" { "00" } else { "01" };
    assert_eq!(defects(&signature("value", &format!("{scalars}{parity}"))), []);
    let other = if v == "1b" { "1c" } else { "1b" };
    assert_eq!(defects(&signature("value", &format!("{scalars}{other}"))), [Defect::OtherSigner]);
    for v in ["1d", "02", "ff"] {
        let found = defects(&signature("value", &format!("{scalars}{v}")));
        assert!(matches!(found[..], [Defect::Signature(_)]), "{found:?}");
    }
    // The twin with the high s recovers to the same key, and is refused.
    let order = "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    let order: alloy_primitives::U256 = order.parse().unwrap();
    let (r, rest) = valid.split_at(66);
    let s: alloy_primitives::U256 = format!("0x{}", rest.split_at(64).0).parse().unwrap();
    let twin = format!("{r}{:064x}{other}", order - s);
    let found = defects(&signature("value", &twin));
    assert!(matches!(found[..], [Defect::Signature(_)]), "{found:?}");
}

#[test]
fn a_signer_that_is_not_the_paying_address_is_a_defect() {
    use bursar_core::canonical::to_python;
    let path = ["wallet", "address"];
    let elsewhere = changed(&path, Some("0x209693Bc6afc0C5328bA36FaF03C514EF312287C".into()));
    let value = parse(elsewhere.as_bytes(), 16).unwrap();
    let unsigned = value.as_object().unwrap().iter();
    let unsigned =
        unsigned.filter(|(key, _)| !["signature", "registryId", "registryUrl"].contains(key));
    let unsigned = unsigned.fold(Object::new(), |made, (key, value)| made.with(key, value.clone()));
    let key = k256::ecdsa::SigningKey::from_slice(&[7; 32]).unwrap();
    let text = to_python(&Value::from(unsigned.clone()));
    let digest = alloy_primitives::eip191_hash_message(text);
    let (scalars, parity) = key.sign_prehash_recoverable(digest.as_slice()).unwrap();
    let value = format!("0x{}{:02x}", hex::encode(scalars.to_bytes()), 27 + parity.to_byte());
    let point = key.verifying_key().to_encoded_point(false);
    let signer = alloy_primitives::Address::from_raw_public_key(&point.as_bytes()[1..]);
    let signature = Object::new()
        .with("type", "EIP191")
        .with("signer", signer.to_checksum(None))
        .with("value", value);
    let found = read(Value::from(unsigned.with("signature", signature)).to_compact().as_bytes());
    let found = found.unwrap();
    assert_eq!(found.defects, [Defect::SignerDoesNotPay]);
    assert_eq!(found.signer, Some(signer));
}

#[test]
fn texts_that_two_parsers_could_read_in_two_ways_are_not_read() {
    let good = changed(&["registryId"], Some("x".into()));
    let twice = good.replacen('{', "{\"type\":\"IntentMandate\",", 1);
    assert!(matches!(read(twice.as_bytes()), Err(Unreadable::Json(_))));
    let half = good.replacen('{', "{\"half\":\"\\ud800\",", 1);
    assert!(matches!(read(half.as_bytes()), Err(Unreadable::Json(_))));
    let deep = good.replacen('{', &format!("{{\"deep\":{}{},", "[".repeat(40), "]".repeat(40)), 1);
    assert!(matches!(read(deep.as_bytes()), Err(Unreadable::Json(_))));
    let long = format!("{good}{}", " ".repeat(2_000_000));
    assert_eq!(read(long.as_bytes()), Err(Unreadable::TooLong));
    assert!(long.len() > BYTES_MAX);
    for other in ["{}", "[]", "7", "{\"type\":\"CartMandate\"}", "{\"type\":7}"] {
        assert_eq!(read(other.as_bytes()), Err(Unreadable::OtherType), "{other}");
    }
}
