//! JSON that two parsers read differently. A body is signed over Python's canonical form of it; the engine must read
//! the same value or refuse the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bursar_tests::agent::Agent;
use bursar_tests::engine::TestEngine;
use serde_json::Value;

use crate::threats::stage::{
    POLICY, cases, engine_with, journal_seq, proof, send_from_new_address, unlimited_in_memory,
    vectors,
};

/// Every endpoint that signs arbitrary JSON: its path, and the text before and after the value. That text is the same
/// in the signed message and on the wire.
const SIGNED_JSON_PLACES: [(&str, &str, &str); 4] = [
    ("/sign", "\"x402_data\":{\"v\":", "}"),
    ("/trade", "\"trade\":{\"v\":", "}"),
    ("/position", "\"position\":{\"v\":", "}"),
    ("/venues", "\"position\":{\"v\":", "}"),
];

/// Nesting levels that [`SIGNED_JSON_PLACES`] add around a value.
const LEVELS_AROUND: usize = 2;

fn wire(case: &Value) -> Vec<u8> {
    match case["wire"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => STANDARD.decode(case["wire_b64"].as_str().unwrap()).unwrap(),
    }
}

/// Returns the deepest nesting of a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0, 0, false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '[' | '{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ']' | '}' if !in_string => depth -= 1,
            _other => {}
        }
    }
    deepest
}

/// Sends `wire` with a proof over `canonical`, both in the same place; returns status and code.
async fn send(
    engine: &TestEngine,
    agent: &Agent,
    (path, front, back): (&str, &str, &str),
    wire: &[u8],
    canonical: &str,
) -> (u16, String) {
    let now = engine.now_s();
    let timestamp = format!("\"timestamp\":{now}");
    let id = format!("\"agent_id\":\"{}\"", agent.id);
    // Members in key order: agent_id, position, timestamp, trade, x402_data.
    let member = format!("{front}{canonical}{back}");
    let message = if front.starts_with("\"position") {
        format!("{{{id},{member},{timestamp}}}")
    } else {
        format!("{{{id},{timestamp},{member}}}")
    };
    let signature = proof(&agent.token, now, &message);
    let body = [
        format!("{{{id},\"signature\":\"{signature}\",{front}").as_bytes(),
        wire,
        format!("{back}}}").as_bytes(),
    ]
    .concat();
    let response = send_from_new_address(engine, ("POST", path), body).await;
    (response.status, response.code())
}

#[tokio::test]
async fn t_08_a_proof_is_valid_only_for_the_canonical_json_of_python() {
    let file = vectors("python-canonical-json.json");
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let before = journal_seq(&engine);
    let (mut accepted, mut refused, mut too_deep) = (0, 0, 0);
    for case in cases(&file, "cases", 371) {
        let (id, wire) = (case["id"].as_str().unwrap(), wire(case));
        let python = case["python"].as_str().unwrap_or("{}");
        for place in SIGNED_JSON_PLACES {
            let (status, code) = send(&engine, &agent, place, &wire, python).await;
            let answer = format!("{id} at {}: {status} {code}", place.0);
            assert_eq!(status, 400, "{answer}");
            if case["advice"] == "reject" {
                refused += 1;
                assert_eq!(code, "INVALID_JSON", "{answer}");
                continue;
            }
            if depth(python) + LEVELS_AROUND + 1 > 127 {
                too_deep += 1;
                assert_eq!(code, "INVALID_JSON", "{answer}");
                continue;
            }
            accepted += 1;
            let wanted = match place.0 {
                "/sign" => "INVALID_X402_FORMAT",
                "/trade" => "",
                _lending => "DEFI_DISABLED",
            };
            assert_eq!(code, wanted, "{answer}");
            // One extra character makes it a different message.
            let other = format!("{python} ");
            let (status, code) = send(&engine, &agent, place, &wire, &other).await;
            assert_eq!((status, code.as_str()), (401, "AUTH_FAILED"), "{id} at {}", place.0);
        }
    }
    assert_eq!((accepted + too_deep, refused), (318 * 4, 53 * 4));
    assert_eq!(too_deep, 4);
    assert_eq!(journal_seq(&engine), before, "a refused body left something behind");
}
