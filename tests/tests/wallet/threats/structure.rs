//! Malicious challenges: names that have a meaning to other parsers, nested offers, and terms that only the wallet
//! decides.

use bursar_tests::agent::Agent;
use bursar_tests::engine::TestEngine;
use bursar_tests::offers::{BASE, PAY_TO, challenge, decode_header, header};
use serde_json::{Value, json};

use crate::threats::stage::{authorized_count, engine_with, terms, unlimited_in_memory};

const POLICY: &str = "--day 1000 --txn 10 --auto 5";
const THIEF: &str = "0x00000000000000000000000000000000DeaDBeef";

/// A complete challenge for a larger amount and another payee.
fn attacker_challenge() -> Value {
    let mut offer = challenge(BASE, 4_000_000, "https://evil.example/");
    offer["accepts"][0]["payTo"] = json!(THIEF);
    offer
}

async fn sign(engine: &TestEngine, agent: &Agent, member: &str, value: Value) -> (u16, Value) {
    let mut body = json!({"agent_id": agent.id, "signature": agent.token});
    body[member] = value;
    engine.post("/sign", &body).await
}

#[tokio::test]
async fn t_16_only_the_challenge_itself_is_read() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let mut signed = 0;
    for name in [
        "__proto__",
        "constructor",
        "prototype",
        "hasOwnProperty",
        "toString",
        "__class__",
        "Accepts",
        "ACCEPTS",
        "accepts ",
        "accepts\u{200b}",
        "аccepts",
        "x402_data",
        "payment_required",
        "payload",
        "authorization",
        "paymentRequirements",
        "0",
        "",
    ] {
        for (place, pointer) in [
            ("top", ""),
            ("resource", "/resource"),
            ("offer", "/accepts/0"),
            ("extra", "/accepts/0/extra"),
        ] {
            let mut offer = challenge(BASE, 12_000, &format!("https://a.example/{signed}"));
            offer.pointer_mut(pointer).unwrap()[name] = attacker_challenge();
            let answer = if signed % 2 == 0 {
                sign(&engine, &agent, "x402_data", offer.clone()).await
            } else {
                sign(&engine, &agent, "payment_required", json!(header(&offer))).await
            };
            assert_eq!(answer.0, 200, "{name} in {place}: {}", answer.1);
            signed += 1;
            let terms = terms(&answer.1);
            assert_eq!(terms["to"], PAY_TO, "{name} in {place}");
            assert_eq!(terms["value"], "12000", "{name} in {place}");
            // The echo is the original offer, unchanged.
            let echo = decode_header(answer.1["header_value"].as_str().unwrap());
            assert_eq!(echo["accepted"], offer["accepts"][0], "{name} in {place}");
        }
    }
    assert_eq!(signed, authorized_count(&engine));
}

/// Terms inside a challenge are ignored.
#[tokio::test]
async fn t_16_terms_inside_a_challenge_are_not_signed() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let mut nonces = std::collections::BTreeSet::new();
    let theirs = json!({
        "from": THIEF, "to": THIEF, "value": "4000000", "validAfter": "0",
        "validBefore": "99999999999", "nonce": format!("0x{}", "11".repeat(32)),
        "signature": format!("0x{}", "22".repeat(65)),
    });
    for n in 0..4 {
        let mut offer = challenge(BASE, 12_000, "https://a.example/");
        offer["n"] = json!(n);
        let fields = theirs.as_object().unwrap();
        for (name, value) in fields {
            offer[name] = value.clone();
            offer["accepts"][0][name] = value.clone();
            offer["accepts"][0]["extra"][name] = value.clone();
        }
        offer["accepts"][0]["payload"] = json!({"authorization": theirs, "signature": "0x"});
        let (status, answer) = sign(&engine, &agent, "x402_data", offer).await;
        assert_eq!(status, 200, "{answer}");
        let payload = decode_header(answer["header_value"].as_str().unwrap())["payload"].clone();
        let terms = payload["authorization"].as_object().unwrap();
        let names: Vec<&str> = terms.keys().map(String::as_str).collect();
        assert_eq!(names, ["from", "nonce", "to", "validAfter", "validBefore", "value"]);
        for (name, value) in fields.iter().filter(|field| *field.0 != "validAfter") {
            assert_ne!(&payload["authorization"][name], value, "{name}");
        }
        assert_ne!(payload["signature"], theirs["signature"]);
        assert_eq!((&terms["to"], &terms["value"]), (&json!(PAY_TO), &json!("12000")));
        nonces.insert(terms["nonce"].as_str().unwrap().to_owned());
    }
    assert_eq!(nonces.len(), 4, "a nonce came twice");
}

#[tokio::test]
async fn t_16_an_invalid_challenge_is_refused_without_a_record() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let good = || challenge(BASE, 12_000, "https://a.example/");
    let with = |pointer: &str, value: Value| {
        let mut offer = good();
        *offer.pointer_mut(pointer).unwrap() = value;
        offer
    };
    let deep = |levels: usize| {
        // The JSON is built as text, because the deepest cases are too deep for a `Value`.
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    };
    let format = "INVALID_X402_FORMAT";
    for (name, value, code) in [
        ("a string", json!(good().to_string()), "INVALID_X402_DATA"),
        ("a list", json!([good()]), "INVALID_X402_DATA"),
        ("a number", json!(2), "INVALID_X402_DATA"),
        ("true", json!(true), "INVALID_X402_DATA"),
        ("an empty object", json!({}), format),
        ("offers in an object", with("/accepts", json!({"0": good()["accepts"][0]})), format),
        ("offers in a list in a list", with("/accepts", json!([good()["accepts"]])), format),
        ("a challenge for an offer", with("/accepts/0", good()), format),
        ("an offer as text", with("/accepts/0", json!(good()["accepts"][0].to_string())), format),
        ("extra as a list", with("/accepts/0/extra", json!([])), format),
        ("a payee as an object", with("/accepts/0/payTo", json!({"toString": PAY_TO})), format),
        ("two payees", with("/accepts/0/payTo", json!([PAY_TO, THIEF])), format),
        ("an asset as a number", with("/accepts/0/asset", json!(5)), format),
        ("a version as text", with("/x402Version", json!("2")), format),
        ("version three", with("/x402Version", json!(3)), format),
        ("a resource as a list", with("/resource", json!(["https://a.example/"])), format),
    ] {
        let (status, answer) = sign(&engine, &agent, "x402_data", value).await;
        assert_eq!((status, answer["code"].as_str().unwrap()), (400, code), "{name}: {answer}");
    }
    let open = format!("\"agent_id\":\"{}\",\"signature\":\"{}\"", agent.id, agent.token);
    let text = good().to_string();
    let inside = &text[1..];
    for (name, body, code) in [
        (
            "both forms",
            format!("\"x402_data\":{text},\"payment_required\":\"{}\"", header(&good())),
            "INVALID_REQUEST",
        ),
        (
            "both forms, one null",
            format!("\"x402_data\":null,\"payment_required\":\"{}\"", header(&good())),
            "INVALID_REQUEST",
        ),
        (
            "both forms, one empty",
            format!("\"x402_data\":{text},\"payment_required\":\"\""),
            "INVALID_REQUEST",
        ),
        (
            "a second list of offers",
            format!("\"x402_data\":{{\"accept\\u0073\":[],{inside}"),
            "INVALID_JSON",
        ),
        ("33 levels", format!("\"x402_data\":{{\"x\":{},{inside}", deep(32)), format),
        ("100 levels", format!("\"x402_data\":{{\"x\":{},{inside}", deep(100)), format),
        ("1,000 levels", format!("\"x402_data\":{{\"x\":{},{inside}", deep(1_000)), "INVALID_JSON"),
        (
            "100,000 levels",
            format!("\"x402_data\":{{\"x\":{},{inside}", deep(100_000)),
            "INVALID_JSON",
        ),
    ] {
        let body = format!("{{{open},{body}}}");
        let (status, answer) = engine.send("POST", "/sign", body.into_bytes()).await;
        assert_eq!((status, answer["code"].as_str().unwrap()), (400, code), "{name}: {answer}");
    }
    let records = engine.engine.core().reader().latest(9).unwrap();
    assert!(records.is_empty(), "{} records", records.len());
    // At the bound the payment is signed.
    let body = format!("{{{open},\"x402_data\":{{\"x\":{},{inside}}}", deep(31));
    assert_eq!(engine.send("POST", "/sign", body.into_bytes()).await.0, 200);
}
