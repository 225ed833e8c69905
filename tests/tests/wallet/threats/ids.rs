//! Callers that guess other agents' request ids, and what a poll reveals.

use bursar_core::limits::HOLD_MS;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;

use crate::threats::stage::{FullResponse, engine_with, send, unlimited_in_memory};

/// Routes that accept an id from any caller.
const ID_ROUTES: [&str; 4] = ["/sign/status/", "/receipt/", "/trade/status/", "/position/status/"];
const GUESSES: usize = 10_000;

fn random_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).unwrap();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hex::encode(bytes);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

#[tokio::test]
async fn t_04_a_guessed_id_reveals_nothing() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 10 --txn 10 --auto 5", "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(1_000, 1), None);
    let (_, answer) = engine.post("/sign", &body).await;
    let known = answer["transaction_id"].as_str().unwrap().to_owned();
    let mut first: [Option<FullResponse>; 4] = [const { None }; 4];
    for n in 0..GUESSES {
        let (place, path) = (n % 4, ID_ROUTES[n % 4]);
        // Some guesses differ from a real id in one bit.
        let id = if n % 100 < 4 {
            let last = u8::from_str_radix(&known[34..], 16).unwrap();
            format!("{}{:02x}", &known[..34], last ^ (1 << (n / 100 % 8)))
        } else {
            random_id()
        };
        let response = send(&engine, ("GET", &format!("{path}{id}")), &[], "").await;
        assert_eq!(response.status, 404, "{path}{id}");
        assert_eq!(*first[place].get_or_insert_with(|| response.clone()), response, "{path}{id}");
        assert!(
            !String::from_utf8_lossy(&response.body).contains(&id),
            "the answer repeats the id"
        );
    }
    // Only a complete id is looked up.
    for id in [&known[..8], &known[..35], &known.replace('-', ""), "%2e%2e", "*", "0"] {
        for path in ID_ROUTES {
            let response = send(&engine, ("GET", &format!("{path}{id}")), &[], "").await;
            assert!(matches!(response.status, 400 | 404), "{path}{id}: {}", response.status);
            assert!(!String::from_utf8_lossy(&response.body).contains(&known), "{path}{id}");
        }
    }
    let polled = engine.get(&format!("/sign/status/{known}")).await;
    assert_eq!(polled, (200, answer));
}

/// Only the answer to a signed payment contains a signature; receipts never do.
#[tokio::test]
async fn t_04_only_a_signed_payment_returns_a_header() {
    let (engine, agent) =
        engine_with(unlimited_in_memory(), "--day 10 --txn 5 --auto 1", "hmac").await;
    let mut operator = engine.operator();
    let ask = async |atoms: u64, n: u64| {
        let body = agent.ask(engine.now_s(), &offer(atoms, n), None);
        let (_, answer) = engine.post("/sign", &body).await;
        let id = answer["request_id"].as_str().or(answer["transaction_id"].as_str());
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let (held, denied) = (ask(2_000_000, 1).await, ask(2_000_000, 2).await);
    let expired = ask(2_000_000, 3).await;
    operator.must(&format!("deny {denied}")).await;
    let refused = ask(6_000_000, 5).await;
    let signed = ask(500_000, 6).await;
    let mut unavailable = 0;
    for round in 0..2 {
        for (name, id) in [
            ("held", &held),
            ("denied", &denied),
            ("expired", &expired),
            ("refused", &refused),
            ("signed", &signed),
        ] {
            for (path, accept) in [
                (format!("/sign/status/{id}"), "*/*"),
                (format!("/receipt/{id}"), "*/*"),
                (format!("/receipt/{id}"), "text/html"),
            ] {
                let response = send(&engine, ("GET", &path), &[("accept", accept)], "").await;
                let text = String::from_utf8(response.body).unwrap();
                assert_eq!(response.status / 100, 2, "{name} {path}: {text}");
                let poll = path.starts_with("/sign");
                let given = text.contains("header_value");
                // A header appears only in a poll of the signed payment, and only while the payment can be redeemed.
                assert_eq!(given, name == "signed" && poll && round == 0, "{name} {path}: {text}");
                assert!(given || !text.contains("signature\":\"0x"), "{name} {path}: {text}");
                unavailable += usize::from(!given);
            }
        }
        engine.clock.advance(u64::try_from(HOLD_MS).unwrap());
    }
    assert_eq!(unavailable, 2 * 5 * 3 - 1);
}
