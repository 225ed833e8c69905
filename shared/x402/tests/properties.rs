//! Properties for any input: no function panics, a written value reads back, and the echo equals the challenge.
#![cfg(test)]

use alloy_primitives::{Address, B256, U256};
use bursar_core::json::{Object, Value};
use bursar_x402::channel::ChannelPayload;
use bursar_x402::{
    Authorization, Echo, PaymentRequired, Signature65, choose, header, payment_header, validity,
};
use proptest::prelude::*;

/// JSON of any form. Its keys and values are often the field names of a challenge.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("x402Version".to_owned()),
        Just("accepts".to_owned()),
        Just("amount".to_owned()),
        Just("maxAmountRequired".to_owned()),
        Just("network".to_owned()),
        Just("eip155:8453".to_owned()),
        Just("asset".to_owned()),
        Just("payTo".to_owned()),
        Just("extra".to_owned()),
        Just("resource".to_owned()),
        Just("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".to_owned()),
        "\\PC{0,8}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0u64..4).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        let member = (word.clone(), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            prop::collection::vec(member, 0..8).prop_map(|members| {
                let mut object = Object::new();
                for (key, value) in members {
                    object.insert(key, value);
                }
                Value::from(object)
            }),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    any_json().prop_map(|inner| Value::from(Object::new().with("inner", inner)))
}

/// A challenge whose optional parts come from these strategies.
fn challenge_of(
    timeout: impl Strategy<Value = Value>,
    extra: impl Strategy<Value = Value>,
    resource: impl Strategy<Value = Value>,
    extensions: impl Strategy<Value = Value>,
) -> impl Strategy<Value = Value> {
    let terms = (any::<u64>(), timeout, extra, any::<[u8; 20]>());
    let offer = terms.prop_map(|(amount, timeout, extra, payee)| {
        let offer = Object::new()
            .with("network", "eip155:8453")
            .with("amount", amount.to_string())
            .with("asset", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
            .with("payTo", Address::from(payee).to_string())
            .with("maxTimeoutSeconds", timeout)
            .with("extra", extra);
        Value::from(offer)
    });
    (prop::collection::vec(offer, 1..3), resource, extensions).prop_map(
        |(offers, resource, extensions)| {
            let top = Object::new().with("x402Version", 2u64).with("accepts", offers);
            Value::from(top.with("resource", resource).with("extensions", extensions))
        },
    )
}

/// A valid challenge.
fn a_challenge() -> impl Strategy<Value = Value> {
    let url = prop_oneof![any_object(), "https://[a-z]{1,8}\\.example/".prop_map(Value::from)];
    challenge_of(any::<u64>().prop_map(Value::from), any_object(), url, any_object())
}

/// A challenge with all its fields, whose values are any JSON.
fn nearly_a_challenge() -> impl Strategy<Value = Value> {
    challenge_of(any_json(), any_json(), any_json(), any_json())
}

/// A claim with all its members, some of whose values are any JSON.
fn nearly_a_claim() -> impl Strategy<Value = Value> {
    let members = ["payer", "payerAuthorizer", "receiver", "receiverAuthorizer", "token"];
    let or_any = |valid: Value| prop_oneof![4 => Just(valid), 1 => any_json()];
    let address = Value::from(Address::repeat_byte(7).to_string());
    let config = (
        prop::array::uniform5(or_any(address)),
        or_any(Value::from(900_u64)),
        or_any(Value::from(B256::ZERO.to_string())),
    );
    let config = config.prop_map(move |(accounts, delay, salt)| {
        let mut config = Object::new().with("withdrawDelay", delay).with("salt", salt);
        for (key, account) in members.into_iter().zip(accounts) {
            config.insert(key, account);
        }
        Value::from(config)
    });
    let claim = (config, or_any(Value::from("5")), or_any(Value::from("0x01")));
    claim.prop_map(|(config, amount, signature)| {
        let voucher = Object::new().with("channel", config).with("maxClaimableAmount", amount);
        let claim = Object::new().with("voucher", voucher).with("signature", signature);
        Value::from(claim.with("totalClaimed", 4_u64))
    })
}

/// Runs all functions that read a challenge before a payment for it is signed.
fn run_challenge_readers(challenge: &Value) {
    let Ok(read) = PaymentRequired::parse(challenge) else { return };
    assert!((1..=32).contains(&read.offers.len()));
    for offer in &read.offers {
        let _url = read.resource_url(offer);
        let _window = validity(read.version, 1_767_225_600, offer.max_timeout_seconds);
        let _echo = Echo::new(&read, offer);
    }
    let _choice = choose(&read.offers, |_chain| true);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), base64 in "[A-Za-z0-9+/]{0,64}={0,3}") {
        let _either = (header::decode(&text), header::decode(&base64));
        let _signature = text.parse::<Signature65>();
    }

    #[test]
    fn json_parser_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        // The bytes are encoded as base64, so that they reach the JSON reader.
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(challenge) = header::decode(&header::encode(&text)) {
            run_challenge_readers(&challenge);
        }
    }

    #[test]
    fn no_json_makes_the_reader_panic(challenge in any_json()) {
        run_challenge_readers(&challenge);
    }

    #[test]
    fn no_malformed_challenge_makes_the_reader_panic(challenge in nearly_a_challenge()) {
        run_challenge_readers(&challenge);
    }

    #[test]
    fn no_json_makes_the_reader_of_channel_payloads_panic(
        kind in "deposit|voucher|refund|claim|settle",
        (config, voucher, deposit) in (any_json(), any_json(), any_json()),
        claims in prop_oneof![any_json(), prop::collection::vec(nearly_a_claim(), 0..3).prop_map(Value::from)],
    ) {
        let payload = Object::new()
            .with("type", kind)
            .with("channelConfig", config)
            .with("voucher", voucher)
            .with("deposit", deposit)
            .with("claims", claims);
        let _either = ChannelPayload::parse(&payload, "");
    }

    #[test]
    fn a_header_is_read_as_it_was_written(value in any_json()) {
        let text = header::encode(&value.to_compact());
        prop_assert_eq!(header::decode(&text), Ok(value.clone()));
        prop_assert_eq!(header::decode(text.trim_end_matches('=')), Ok(value));
    }

    #[test]
    fn any_amount_is_read_as_it_is_printed(limbs in any::<[u64; 4]>()) {
        let amount = U256::from_limbs(limbs);
        let offer = Object::new()
            .with("network", "base")
            .with("amount", amount.to_string())
            .with("asset", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
            .with("payTo", "0x209693Bc6afc0C5328bA36FaF03C514EF312287C");
        let challenge = Value::from(Object::new().with("accepts", vec![Value::from(offer)]));
        let read = PaymentRequired::parse(&challenge).unwrap();
        prop_assert_eq!(read.offers.first().map(|offer| offer.amount), Some(amount));
    }

    #[test]
    fn the_payment_echoes_the_offer_and_carries_the_terms(
        challenge in a_challenge(),
        (from, to, nonce) in any::<([u8; 20], [u8; 20], [u8; 32])>(),
        (value, valid_before) in any::<([u64; 4], u64)>(),
    ) {
        let read = PaymentRequired::parse(&challenge).unwrap();
        let offer = read.offers.last().unwrap();
        // Another test covers a challenge that is too large to echo.
        let Ok(echo) = Echo::new(&read, offer) else { return Ok(()) };
        let terms = Authorization {
            from: from.into(),
            to: to.into(),
            value: U256::from_limbs(value),
            valid_after: 0,
            valid_before,
            nonce: nonce.into(),
        };
        let signature = Signature65::new(B256::with_last_byte(1), B256::with_last_byte(2), 28).unwrap();
        let text = payment_header(&echo, &terms, &signature);
        let sent = header::decode(&text).unwrap();
        prop_assert_eq!(sent.get("accepted"), Some(&offer.raw));
        prop_assert_eq!(sent.get("resource"), read.resource.as_ref());
        prop_assert_eq!(sent.get("extensions"), read.extensions.as_ref());
        let payload = sent.get("payload").unwrap();
        let authorization = Object::new()
            .with("from", terms.from.to_string())
            .with("to", terms.to.to_string())
            .with("value", terms.value.to_string())
            .with("validAfter", "0")
            .with("validBefore", valid_before.to_string())
            .with("nonce", terms.nonce.to_string());
        prop_assert_eq!(payload.get("authorization"), Some(&Value::from(authorization)));
        let signed = payload.get("signature").and_then(Value::as_str);
        prop_assert_eq!(signed.map(str::parse), Some(Ok(signature)));
    }
}
