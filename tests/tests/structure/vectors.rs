//! The vector files through the entry points that agents use.
//!
//! Covers authentication as a function and over HTTP, Wycheproof HMAC, and the daily allowance through a whole
//! engine. Vectors are never edited to make a test pass.

use std::path::Path;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_core::codes::Code;
use bursar_core::json;
use bursar_core::limits::BODY_DEPTH_MAX;
use bursar_core::time::Utc;
use bursar_engine::agent_api::auth::{TimestampWindow, authenticate};
use bursar_engine::agent_api::message::{Endpoint, canonical_text};
use bursar_engine::edition::AgentWire;
use bursar_engine::journal::MemoryStore;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn cases<'a>(file: &'a Value, list: &str, count: usize) -> &'a [Value] {
    let cases = file[list].as_array().unwrap();
    assert_eq!(cases.len(), count, "{list}");
    cases
}

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap_or_else(|| panic!("{name} of {case}"))
}

fn endpoint(path: &str) -> Endpoint {
    match path {
        "/sign" => Endpoint::Sign,
        "/trade" => Endpoint::Trade,
        "/venues" => Endpoint::Venues,
        "/position" => Endpoint::Position,
        "/callback" => Endpoint::Callback,
        "/mandate" | "/balances" => Endpoint::Read,
        other => panic!("{other}"),
    }
}

fn secret(token: &str) -> [u8; 32] {
    hex::decode(&token[3..]).unwrap().try_into().unwrap()
}

/// Starts an engine at the vectors' time, with an agent of this code and token.
async fn engine_with(code: &str, token: &str, now: i64) -> TestEngine {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(now)));
    let store = Box::new(MemoryStore::default());
    let setup = Setup { store: Some(store), clock, ..Setup::default() };
    let engine = TestEngine::start(setup).await;
    engine.set_up_wallet("--day 100 --txn 10 --auto 5").await;
    engine.random.next_agent(code, &secret(token));
    let agent = engine.add_agent("vector", "hmac").await;
    assert_eq!((agent.id.as_str(), agent.token.as_str()), (code, token));
    engine
}

/// Returns whether authentication alone accepts a body.
fn is_authenticated(engine: &TestEngine, path: &str, body: &Value, now: i64) -> bool {
    let bytes = body.to_string();
    let json::Value::Object(body) = json::parse(bytes.as_bytes(), BODY_DEPTH_MAX).unwrap() else {
        panic!("not an object")
    };
    let view = engine.engine.core().view();
    let signature = body.get("signature").and_then(json::Value::as_str);
    authenticate(
        &view,
        engine.engine.vault().gate(),
        TimestampWindow { now: Utc::from_seconds(now), window_s: 300 },
        endpoint(path),
        &AgentWire::FULL,
        &body,
        signature,
    )
    .is_ok()
}

#[tokio::test]
async fn t_08_every_accepted_message_has_its_canonical_text_and_digest() {
    let file = read("hmac-requests.json");
    let accepted = cases(&file, "accepted", 24);
    for case in accepted {
        let (id, path, body) = (text(case, "id"), text(case, "endpoint"), &case["body"]);
        let now = case["now"].as_i64().unwrap();
        let signature = text(body, "signature");
        let timestamp = case["message"]["timestamp"].as_u64().unwrap();
        let bytes = body.to_string();
        let json::Value::Object(object) = json::parse(bytes.as_bytes(), BODY_DEPTH_MAX).unwrap()
        else {
            panic!("{id}")
        };
        let agent = text(body, "agent_id");
        let messages = endpoint(path).messages(&AgentWire::FULL, agent, timestamp, &object);
        let [message] = messages.unwrap_or_default().try_into().expect(id);
        let canonical = canonical_text(message);
        assert_eq!(canonical, text(case, "canonical"), "{id}");
        assert!(signature.ends_with(text(case, "digest")), "{id}");
        let token = text(&file["tokens"], text(case, "token"));
        let engine = engine_with(text(body, "agent_id"), token, now).await;
        assert!(is_authenticated(&engine, path, body, now), "{id}");
    }
}

#[tokio::test]
async fn t_08_every_edge_case_of_authentication_is_decided_as_specified() {
    let file = read("hmac-requests.json");
    let edges = cases(&file, "refused_or_edge", 51);
    let engine = engine_with("ABC123", text(&file["tokens"], "t1"), 1_767_225_600).await;
    let mut passed = 0;
    for case in edges {
        let wanted = text(case, "auth") == "ok";
        let given = is_authenticated(
            &engine,
            text(case, "endpoint"),
            &case["body"],
            case["now"].as_i64().unwrap(),
        );
        assert_eq!(given, wanted, "{}: {}", text(case, "id"), text(case, "note"));
        passed += usize::from(given);
    }
    assert_eq!(passed, 4);
}

#[tokio::test]
async fn t_08_bearer_tokens_are_compared_by_their_hash() {
    let file = read("hmac-requests.json");
    for case in cases(&file, "bearer", 7) {
        let token = text(&file["tokens"], "t4");
        let engine = TestEngine::start(Setup::default()).await;
        engine.set_up_wallet("--auto 5").await;
        engine.random.next_agent("ABC123", &secret(token));
        engine.add_agent("vector", "bearer").await;
        if text(case, "stored_sha256") != hex::encode(<sha2::Sha256 as sha2::Digest>::digest(token))
        {
            // The stored hash is of another value, which is not a token; the case must fail in any event.
            assert_eq!(text(case, "auth"), "fail");
        }
        let body = json!({
            "agent_id": "ABC123", "signature": case["token"], "payment_required": offer(1_000, 1),
        });
        let (status, answer) = engine.post("/sign", &body).await;
        let wanted = if text(case, "auth") == "ok" { 200 } else { 401 };
        assert_eq!(status, wanted, "{}: {answer}", text(case, "note"));
    }
}

/// Paths that are not served yet; remove a path once it is served.
const NOT_SERVED: &[&str] = &[];

/// Returns whether this is the endpoint's answer to a valid proof.
fn is_past_authentication(path: &str, status: u16, answer: &Value) -> bool {
    let code = answer["code"].as_str();
    match path {
        "/trade" => status == 400 && answer["status"] == "rejected",
        "/venues" | "/position" => (status, code) == (400, Some("DEFI_DISABLED")),
        "/mandate" | "/balances" => status == 200 && answer["status"] == "ok",
        // The payment that the vector reports does not exist here.
        "/callback" => (status, code) == (404, Some("TRANSACTION_NOT_FOUND")),
        "/sign" => status == 200 || (status == 400 && code != Some("AUTH_FAILED")),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn t_08_every_request_goes_through_http_and_a_repeat_is_the_same() {
    let file = read("hmac-requests.json");
    let mut seen = std::collections::BTreeMap::new();
    let all = cases(&file, "accepted", 24).iter().chain(cases(&file, "refused_or_edge", 51));
    for case in all {
        let (id, path) = (text(case, "id"), text(case, "endpoint"));
        *seen.entry(path).or_insert(0) += 1;
        // An accepted case names its token; all other cases are made with the first one.
        let accepted = case.get("canonical").is_some();
        let token = text(&file["tokens"], if accepted { text(case, "token") } else { "t1" });
        let code = if accepted { text(&case["body"], "agent_id") } else { "ABC123" };
        let engine = engine_with(code, token, case["now"].as_i64().unwrap()).await;
        let before = engine.engine.core().view().state.seq;
        let first = engine.post(path, &case["body"]).await;
        let (status, answer) = &first;
        if NOT_SERVED.contains(&path) {
            assert_eq!((*status, &answer["code"]), (404, &json!("NOT_FOUND")), "{path} is served");
            continue;
        }
        if accepted || text(case, "auth") == "ok" {
            assert!(is_past_authentication(path, *status, answer), "{id}: {status} {answer}");
        } else {
            assert!(matches!(status, 400 | 401), "{id}: {status} {answer}");
            let reply = answer["code"].as_str().unwrap();
            assert!(*status == 400 || reply == Code::AuthFailed.text(), "{id}: {answer}");
            assert_eq!(engine.engine.core().view().state.seq, before, "{id}");
        }
        assert_eq!(engine.post(path, &case["body"]).await, first, "{id}");
        let records = engine.engine.core().reader().latest(9).unwrap().len();
        assert_eq!(records, usize::from(path == "/sign" && *status == 200), "{id}: {answer}");
    }
    let seen: Vec<(&str, i32)> = seen.into_iter().collect();
    let wanted = [
        ("/balances", 1),
        ("/callback", 2),
        ("/mandate", 2),
        ("/position", 3),
        ("/sign", 12 + 47),
        ("/trade", 6),
        ("/venues", 2),
    ];
    assert_eq!(seen, wanted);
}

#[test]
fn hmac_agrees_with_wycheproof() {
    let file = read("wycheproof-hmac-sha256.json");
    let (mut valid, mut invalid) = (0, 0);
    for group in file["testGroups"].as_array().unwrap() {
        for case in group["tests"].as_array().unwrap() {
            let bytes = |name: &str| hex::decode(text(case, name)).unwrap();
            let mac = Hmac::<Sha256>::new_from_slice(&bytes("key")).unwrap();
            let mac = mac.chain_update(bytes("msg"));
            let tag = bytes("tag");
            let right = match group["tagSize"].as_u64().unwrap() {
                256 => mac.verify_slice(&tag).is_ok(),
                _truncated => {
                    // Our proofs have 256 bits; truncated tags check the primitive itself.
                    assert!(mac.clone().verify_slice(&tag).is_err(), "{}", case["tcId"]);
                    mac.verify_truncated_left(&tag).is_ok()
                }
            };
            assert_eq!(right, text(case, "result") == "valid", "{}", case["tcId"]);
            if right { valid += 1 } else { invalid += 1 }
        }
    }
    assert_eq!((valid, invalid), (66, 108));
}

fn seconds(stamp: &str) -> i64 {
    stamp.parse::<jiff::Timestamp>().unwrap().as_second()
}

/// Spends the day's limit of one dollar in one payment; returns whether it was still available.
async fn pay_whole_daily_limit(engine: &TestEngine, agent: &Agent, n: u64) -> bool {
    let body = agent.ask(engine.now_s(), &offer(1_000_000, n), None);
    let (status, answer) = engine.post("/sign", &body).await;
    match status {
        200 => true,
        429 => {
            assert_eq!(answer["code"], "LIMIT_REACHED", "{answer}");
            false
        }
        _other => panic!("{status} {answer}"),
    }
}

#[tokio::test]
async fn t_29_the_allowance_sequences_hold_through_the_engine() {
    let file = read("allowance.json");
    let (mut steps, mut renewals) = (0, 0);
    for sequence in cases(&file, "sequences", 10) {
        let id = text(sequence, "id");
        let mut engine: Option<(TestEngine, Agent)> = None;
        for (n, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            steps += 1;
            let now = Utc::from_seconds(seconds(text(step, "now_utc")));
            if engine.is_none() {
                let clock = Arc::new(ManualClock::new(now));
                clock.set_zone(text(step, "tz")).unwrap();
                let store = Box::new(MemoryStore::default());
                let started =
                    TestEngine::start(Setup { store: Some(store), clock, ..Setup::default() })
                        .await;
                started.set_up_wallet("--day 1 --txn 1 --auto 5").await;
                let agent = started.add_agent("daily", "bearer").await;
                // Commissioning grants the first allowance; it is spent at once.
                assert!(pay_whole_daily_limit(&started, &agent, 0).await, "{id}");
                assert!(step["renew"].as_bool().unwrap(), "{id}: the first step grants");
                engine = Some((started, agent));
                continue;
            }
            let (engine, agent) = engine.as_ref().unwrap();
            engine.clock.set_zone(text(step, "tz")).unwrap();
            engine.clock.set_utc(now);
            // The vectors contain only dates and instants. A new boot id makes the machine look freshly started, so
            // that no clock contradicts them.
            engine.clock.set_boot_id(&format!("{id} {n}"));
            let renewed = pay_whole_daily_limit(engine, agent, u64::try_from(n).unwrap()).await;
            assert_eq!(renewed, step["renew"].as_bool().unwrap(), "{id}, step {n}: {step}");
            renewals += usize::from(renewed);
        }
    }
    assert_eq!(steps, 97);
    assert!(renewals > 20, "{renewals}");
}

/// `/status`, `/mandate` and `agent show` announce the exact second at which the allowance renews, in any zone.
#[tokio::test]
async fn an_allowance_renews_at_the_announced_time_and_not_a_second_earlier() {
    for (zone, hours) in
        [("UTC", 1), ("Asia/Tokyo", 14), ("America/St_Johns", 20), ("Pacific/Kiritimati", 9)]
    {
        let engine = TestEngine::start(Setup::default()).await;
        engine.clock.set_zone(zone).unwrap();
        engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
        let agent = engine.add_agent("bot", "hmac").await;
        engine.clock.advance(hours * 3_600_000);
        assert!(pay_whole_daily_limit(&engine, &agent, 1).await);
        for _day in 0..2 {
            let answer = engine.post("/status", &agent.read(engine.now_s())).await.1;
            let answer = answer["agent"]["renews_at"].as_str().unwrap().to_owned();
            engine.clock.advance(1_000);
            let mandate = engine.post("/mandate", &agent.read(engine.now_s())).await.1;
            assert_eq!(mandate["renews_at"], answer, "{zone}");
            let shown = engine.operator().must("agent show bot").await.data();
            assert_eq!(shown["renews_at"], answer, "{zone}");
            let at: jiff::Timestamp = answer.parse().unwrap();
            let left = at.as_second() - engine.now_s();
            engine.clock.advance(u64::try_from(left - 1).unwrap() * 1_000);
            let spent = async || {
                let answer = engine.post("/status", &agent.read(engine.now_s())).await.1;
                answer["agent"]["spent_today_micro"].as_u64().unwrap()
            };
            assert_eq!(spent().await, 1_000_000, "{zone}: before {answer}");
            engine.clock.advance(1_000);
            assert_eq!(spent().await, 0, "{zone}: at {answer}");
            assert!(pay_whole_daily_limit(&engine, &agent, 2).await);
        }
    }
}

#[tokio::test]
async fn status_reports_an_agents_own_numbers() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    assert!(pay_whole_daily_limit(&engine, &agent, 1).await);
    let (status, answer) = engine.post("/status", &agent.read(engine.now_s())).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["agent"]["remaining_today_micro"], 9_000_000);
    assert_eq!(answer["agent"]["status"], "active");
    operator.must("agent suspend bot").await;
    let body = agent.ask(engine.now_s(), &offer(1_000_000, 2), None);
    assert_eq!(engine.post("/sign", &body).await.1["code"], "AGENT_SUSPENDED");
    let plain = engine.get("/status").await;
    assert_eq!((plain.0, plain.1.get("agent")), (200, None));
}
