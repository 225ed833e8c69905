//! Captured requests, and idempotency keys used twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_core::time::Utc;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use crate::threats::stage::{
    POLICY, authorized_count, engine_with, into_arc, run_all, signed_body, unlimited_in_memory,
};

const HOUR_MS: u64 = 3_600_000;

fn setup_on_disk(clock: &Arc<ManualClock>) -> Setup {
    Setup { settings: UNLIMITED_RATE_SETTINGS, clock: Arc::clone(clock), ..Setup::default() }
}

async fn reopen(engine: TestEngine) -> TestEngine {
    let clock = Arc::clone(&engine.clock);
    let engine = engine.restart(setup_on_disk(&clock)).await;
    engine.operator().must("wallet open").await;
    engine
}

/// Returns all variants of a captured body that need no secret.
fn copies(body: &Value) -> Vec<Vec<u8>> {
    let mut with_key = body.clone();
    with_key["idempotency_key"] = json!("another");
    let mut with_more = body.clone();
    with_more["note"] = json!("harmless");
    with_more["request_url"] = json!("");
    let pretty = serde_json::to_vec_pretty(body).unwrap();
    let escaped = body.to_string().replace("agent_id", "\\u0061gent_id");
    vec![
        body.to_string().into_bytes(),
        with_key.to_string().into_bytes(),
        with_more.to_string().into_bytes(),
        pretty,
        escaped.into_bytes(),
    ]
}

async fn assert_all(engine: &TestEngine, body: &Value, wanted: &(u16, Value), when: &str) {
    for (n, copy) in copies(body).into_iter().enumerate() {
        let answer = engine.send("POST", "/sign", copy).await;
        assert_eq!(&answer, wanted, "copy {n}, {when}");
    }
    assert_eq!(authorized_count(engine), 1, "{when}");
}

async fn assert_code(engine: &TestEngine, body: &Value, wanted: (u16, &str), when: &str) {
    for (n, copy) in copies(body).into_iter().enumerate() {
        let (status, answer) = engine.send("POST", "/sign", copy).await;
        let reply = (status, answer["code"].as_str().unwrap_or_default());
        assert_eq!(reply, wanted, "copy {n}, {when}: {answer}");
    }
    assert_eq!(authorized_count(engine), 1, "{when}");
}

#[tokio::test]
async fn t_07_a_replayed_request_never_pays_twice() {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
    let (engine, agent) = engine_with(setup_on_disk(&clock), POLICY, "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let first = engine.post("/sign", &body).await;
    assert_eq!(first.0, 200, "{}", first.1);
    assert_all(&engine, &body, &first, "at once").await;

    let stale = (401, "AUTH_FAILED");
    engine.clock.jump_back(HOUR_MS);
    assert_code(&engine, &body, stale, "an hour before").await;
    let engine = reopen(engine).await;
    assert_code(&engine, &body, stale, "an hour before, after a restart").await;
    engine.clock.set_utc(Utc::from_seconds(NEW_YEAR_S));
    assert_all(&engine, &body, &first, "back again").await;
    let engine = reopen(engine).await;
    assert_all(&engine, &body, &first, "back again, after a restart").await;
    engine.clock.set_utc(Utc::from_seconds(NEW_YEAR_S - 300));
    assert_all(&engine, &body, &first, "at the edge of the window").await;

    // The payment expires after a minute; the signature window stays open for four more.
    engine.clock.set_utc(Utc::from_seconds(NEW_YEAR_S + 60));
    assert_code(&engine, &body, (409, "PAYMENT_EXPIRED"), "when it can be redeemed no more").await;
    engine.clock.set_utc(Utc::from_seconds(NEW_YEAR_S + 3600));
    assert_code(&engine, &body, stale, "an hour after").await;
    // The clock jumps far ahead, past midnight and further payments, and then returns.
    engine.clock.set_utc(Utc::from_seconds(NEW_YEAR_S + 40 * 86_400));
    let other = agent.ask(engine.now_s(), &offer(12_000, 2), None);
    assert_eq!(engine.post("/sign", &other).await.0, 200);
    engine.clock.set_utc(Utc::from_seconds(NEW_YEAR_S + 61));
    let engine = reopen(engine).await;
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!((status, &answer["code"]), (409, &json!("PAYMENT_EXPIRED")), "{answer}");
    assert_eq!(authorized_count(&engine), 2);
}

/// A held, denied or refused request does not become a payment when it is sent again.
#[tokio::test]
async fn t_07_a_replayed_request_keeps_its_first_outcome() {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
    let (engine, agent) =
        engine_with(setup_on_disk(&clock), "--day 10 --txn 5 --auto 0.5", "hmac").await;
    let ask = |n: u64, atoms: u64| agent.ask(NEW_YEAR_S, &offer(atoms, n), None);
    let (held, denied, refused) = (ask(1, 2_000_000), ask(2, 2_000_000), ask(3, 6_000_000));
    let mut ids = Vec::new();
    for (body, wanted) in [(&held, 202), (&denied, 202), (&refused, 403)] {
        let (status, answer) = engine.post("/sign", body).await;
        assert_eq!(status, wanted, "{answer}");
        ids.push(answer["request_id"].as_str().unwrap_or_default().to_owned());
    }
    engine.operator().must(&format!("deny {}", ids[1])).await;
    // The policy would now allow all of them.
    engine.operator().must("policy edit p --txn 100 --day 1000 --auto 100").await;
    let mut engine = engine;
    for round in 0..2 {
        for copy in copies(&held) {
            let (status, answer) = engine.send("POST", "/sign", copy).await;
            assert_eq!((status, &answer["request_id"]), (202, &json!(ids[0])), "{round}: {answer}");
        }
        for copy in copies(&denied) {
            let (_, answer) = engine.send("POST", "/sign", copy).await;
            assert_eq!(answer["status"], "rejected", "{round}: {answer}");
        }
        for copy in copies(&refused) {
            let (_, answer) = engine.send("POST", "/sign", copy).await;
            assert_eq!(answer["code"], "EXCEEDS_PER_REQUEST_MAX", "{round}: {answer}");
        }
        assert_eq!(authorized_count(&engine), 0);
        engine = reopen(engine).await;
    }
    engine.operator().must(&format!("approve {}", ids[0])).await;
    let (status, signed) = engine.post("/sign", &held).await;
    assert_eq!((status, &signed["status"]), (200, &json!("success")), "{signed}");
    assert_eq!(authorized_count(&engine), 1);
}

async fn post_with_key(engine: &TestEngine, agent: &Agent, n: u64, key: Value) -> (u16, Value) {
    let mut body = agent.ask(engine.now_s(), &offer(12_000, n), None);
    body["idempotency_key"] = key;
    engine.post("/sign", &body).await
}

#[tokio::test]
async fn t_31_a_key_is_bound_to_its_agent_and_its_content() {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
    let (engine, agent) = engine_with(setup_on_disk(&clock), POLICY, "bearer").await;
    let other = engine.add_agent("other", "bearer").await;
    let key = || json!("order-1");
    let first = post_with_key(&engine, &agent, 1, key()).await;
    // Keys are scoped to the agent: another agent uses the same key for the same or another payment.
    let theirs = post_with_key(&engine, &other, 3, key()).await;
    assert_eq!((first.0, theirs.0), (200, 200), "{} {}", first.1, theirs.1);
    let third = engine.add_agent("third", "bearer").await;
    let same = post_with_key(&engine, &third, 1, key()).await;
    assert_eq!(same.0, 200, "{}", same.1);
    assert_ne!(first.1["header_value"], same.1["header_value"]);
    // Keys are scoped to the endpoint, too.
    let trade = json!({"token_in": "ETH", "token_out": "ETH", "amount_in": "1"});
    let mut trade = signed_body(&agent, engine.now_s(), "trade", &trade);
    trade["idempotency_key"] = key();
    assert_eq!(engine.post("/trade", &trade).await.1["status"], "rejected");
    let mut engine = engine;
    for round in 0..2 {
        assert_eq!(post_with_key(&engine, &agent, 1, key()).await, first, "{round}");
        assert_eq!(post_with_key(&engine, &other, 3, key()).await, theirs, "{round}");
        let (status, answer) = post_with_key(&engine, &agent, 2, key()).await;
        let reply = (status, answer["code"].as_str().unwrap());
        assert_eq!(reply, (409, "IDEMPOTENCY_CONFLICT"), "{round}");
        assert_eq!(authorized_count(&engine), 3);
        engine = reopen(engine).await;
    }
    // Two keys pay for the same content twice, which is their purpose.
    assert_eq!(post_with_key(&engine, &agent, 1, json!("order-2")).await.0, 200);
    assert_eq!(authorized_count(&engine), 4);
    // The key becomes free exactly when the payment expires.
    engine.clock.advance(59_999);
    assert_eq!(post_with_key(&engine, &agent, 2, key()).await.0, 409);
    engine.clock.advance(1);
    assert_eq!(post_with_key(&engine, &agent, 2, key()).await.0, 200);
    assert_eq!(authorized_count(&engine), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t_31_concurrent_requests_with_one_key_sign_one_payment() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let (engine, agent) = (into_arc(engine), into_arc(agent));
    for round in 0..8u64 {
        let asks =
            (0..32u64).map(|n| {
                let (engine, agent) = (Arc::clone(&engine), Arc::clone(&agent));
                let content = round * 2 + n % 2;
                async move {
                    post_with_key(&engine, &agent, content, json!(format!("key-{round}"))).await
                }
            });
        let mut headers = BTreeSet::new();
        let mut conflicts = 0;
        for (status, answer) in run_all(asks).await {
            match status {
                200 => drop(headers.insert(answer["header_value"].as_str().unwrap().to_owned())),
                409 => conflicts += 1,
                _other => panic!("{status} {answer}"),
            }
        }
        assert_eq!((headers.len(), conflicts), (1, 16), "round {round}");
        assert_eq!(authorized_count(&engine) as u64, round + 1);
    }
}

#[tokio::test]
async fn t_31_a_key_is_visible_ascii_and_never_repeats_an_hmac_payment() {
    let (engine, bearer) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    for bad in ["k".repeat(129), " ".into(), "a b".into(), "schlüssel".into(), "a\u{7}".into()] {
        let (status, answer) = post_with_key(&engine, &bearer, 1, json!(bad)).await;
        let reply = (status, answer["code"].as_str().unwrap());
        assert_eq!(reply, (400, "INVALID_REQUEST"), "{bad:?}");
    }
    for bad in [json!(1), json!(["k"]), json!({}), json!(true)] {
        assert_eq!(post_with_key(&engine, &bearer, 1, bad).await.0, 400);
    }
    assert_eq!(authorized_count(&engine), 0);
    assert_eq!(post_with_key(&engine, &bearer, 1, json!("k".repeat(128))).await.0, 200);
    // A missing, an empty and a null key all mean no key.
    for none in [json!(""), Value::Null] {
        assert_eq!(post_with_key(&engine, &bearer, 2, none).await.0, 200);
    }
    assert_eq!(authorized_count(&engine), 2);

    let agent = engine.add_agent("signer", "hmac").await;
    let mut body = agent.ask(engine.now_s(), &offer(12_000, 9), None);
    let first = engine.post("/sign", &body).await;
    for key in ["a", "b", "c"] {
        body["idempotency_key"] = json!(key);
        assert_eq!(engine.post("/sign", &body).await, first);
    }
    assert_eq!(authorized_count(&engine), 3);
}
