//! Callers without a valid proof: the answer they get from every endpoint that takes one.

use std::collections::BTreeMap;

use bursar_tests::agent::Agent;
use bursar_tests::engine::TestEngine;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Map, Value, json};

use crate::threats::stage::{
    POLICY, add_agent, engine_with, journal_seq, send, send_from_new_address, set_up_wallet,
    unlimited_in_memory,
};
use crate::threats::wire::exchange;

/// Endpoints with a proof in the body, the signed message, and the sent members.
fn endpoints() -> Vec<(&'static str, Value, Value)> {
    let id = "6f1c2b1e-3b0a-4a86-9a7b-0c2f3f4d5e6f";
    let event = json!({"transaction_id": id, "event": "failed", "tx_hash": null});
    let trade = json!({"trade": {"token_in": "ETH", "token_out": "ETH", "amount_in": "1"}});
    let position = json!({"position": {"action": "supply", "amount": "1"}});
    let header = json!({"payment_required": offer(1_000, 7)});
    let read = json!({"action": "agent_read"});
    vec![
        ("/sign", header.clone(), header),
        ("/trade", trade.clone(), trade),
        ("/position", position.clone(), position),
        ("/venues", json!({"position": {}}), json!({})),
        ("/callback", json!({"callback": event}), json!({"transaction_id": id, "event": "failed"})),
        ("/mandate", read.clone(), json!({})),
        ("/balances", read.clone(), json!({})),
        ("/status", read, json!({})),
    ]
}

fn fields(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn body(sent: &Value, id: &str, signature: Value) -> String {
    let mut sent = fields(sent);
    sent.insert("agent_id".into(), json!(id));
    if signature != "" {
        sent.insert("signature".into(), signature);
    }
    Value::Object(sent).to_string()
}

/// Returns every kind of invalid proof. The answer must be the same for all of them.
fn wrong_proofs(agent: &Agent, other: &Agent, now: i64, path: &str) -> Vec<(String, String)> {
    let all = endpoints();
    let (_, message, sent) = all.iter().find(|row| row.0 == path).unwrap();
    let right = |agent: &Agent, at: i64| agent.sign(at, &fields(message));
    let flipped = |text: String| {
        let last = text.chars().last().unwrap();
        format!("{}{}", &text[..text.len() - 1], if last == '0' { '1' } else { '0' })
    };
    let elsewhere = all.iter().find(|row| row.1 != *message).unwrap();
    let mut cases = vec![
        ("unknown agent", "ZZZ999", json!(right(agent, now))),
        ("no agent's id", "../etc/passwd", json!(right(agent, now))),
        ("lower case", "abc123", json!(right(agent, now))),
        ("wrong signature", &agent.id, json!(flipped(right(agent, now)))),
        ("stale", &agent.id, json!(right(agent, now - 400))),
        ("from the future", &agent.id, json!(right(agent, now + 400))),
        ("other message", &agent.id, json!(agent.sign(now, &fields(&elsewhere.1)))),
        ("empty message", &agent.id, json!(agent.sign(now, &Map::new()))),
        ("other agent's", &agent.id, json!(right(other, now))),
        ("token as text", &agent.id, json!(agent.token)),
        ("token of another", &agent.id, json!(format!("AT_{}", "0".repeat(64)))),
        ("upper case", &agent.id, json!(right(agent, now).to_uppercase())),
        ("missing", &agent.id, json!("")),
        ("null", &agent.id, Value::Null),
        ("number", &agent.id, json!(5)),
        ("long", &agent.id, json!("x".repeat(100_000))),
        ("no form", &agent.id, json!("SIG::")),
    ];
    if path == "/sign" {
        // The signature covers a different offer than the one sent.
        cases.push(("changed", &agent.id, json!(agent.sign(now, &Map::new()))));
    }
    cases.into_iter().map(|(name, id, proof)| (name.to_owned(), body(sent, id, proof))).collect()
}

#[tokio::test]
async fn t_06_every_wrong_proof_gets_the_same_bytes_in_every_state() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let other = engine.add_agent("other", "hmac").await;
    let mut operator = engine.operator();
    let mut first: BTreeMap<&str, Value> = BTreeMap::new();
    let mut heard_all = 0;
    let mut same = async |engine: &TestEngine, state: &str, path: &'static str, body: String| {
        let response = send_from_new_address(engine, ("POST", path), body).await;
        let all =
            json!([response.status, response.headers, String::from_utf8_lossy(&response.body)]);
        assert_eq!(
            (response.status, response.code().as_str()),
            (401, "AUTH_FAILED"),
            "{state} {path}"
        );
        assert_eq!(*first.entry("all").or_insert_with(|| all.clone()), all, "{state} {path}");
        heard_all += 1;
    };
    let before = journal_seq(&engine);
    for state in ["open", "suspended", "frozen", "locked"] {
        match state {
            "suspended" => drop(operator.must("agent suspend bot").await),
            "frozen" => {
                operator.must("agent resume bot").await;
                operator.must("freeze").await;
            }
            "locked" => {
                operator.must("thaw").await;
                operator.must("wallet lock").await;
            }
            _open => {}
        }
        let seq = journal_seq(&engine);
        for (path, message, sent) in endpoints() {
            for (name, body) in wrong_proofs(&agent, &other, engine.now_s(), path) {
                same(&engine, &format!("{state}, {name}"), path, body).await;
            }
            if state == "locked" {
                let right = agent.sign(engine.now_s(), &fields(&message));
                same(&engine, "locked, right", path, body(&sent, &agent.id, json!(right))).await;
            }
        }
        assert_eq!(journal_seq(&engine), seq, "a wrong proof left something in the journal");
    }
    assert!(journal_seq(&engine) > before);
    assert_eq!(heard_all, 4 * (8 * 17 + 1) + 8);
}

/// The proof in headers, as `GET /status` accepts it.
#[tokio::test]
async fn t_06_every_wrong_proof_in_headers_gets_the_same_answer() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "hmac").await;
    let mut operator = engine.operator();
    let right = agent.read(engine.now_s())["signature"].as_str().unwrap().to_owned();
    let ask = async |id: &str, proof: &str| {
        let headers = [("x-agent-id", id), ("x-agent-signature", proof)];
        send(&engine, ("GET", "/status"), &headers, "").await
    };
    assert_eq!(ask(&agent.id, &right).await.status, 200);
    let wrong = ask(&agent.id, &right.replace("SIG:1", "SIG:2")).await;
    assert_eq!((wrong.status, wrong.code().as_str()), (401, "AUTH_FAILED"));
    assert_eq!(ask("ZZZ999", &right).await, wrong);
    assert_eq!(ask("", &right).await, wrong);
    operator.must("wallet lock").await;
    assert_eq!(ask(&agent.id, &right).await, wrong);
}

/// A bearer agent's answer depends on the lock only if its token is valid.
#[tokio::test]
async fn t_06_a_wrong_token_does_not_reveal_the_lock() {
    let (engine, agent) = engine_with(unlimited_in_memory(), POLICY, "bearer").await;
    let mut operator = engine.operator();
    let mut first = None;
    for lock in [false, true] {
        if lock {
            operator.must("wallet lock").await;
        }
        for (path, _, sent) in endpoints() {
            let sent = |id: &str, token: &str| body(&sent, id, json!(token));
            let right = send(&engine, ("POST", path), &[], sent(&agent.id, &agent.token)).await;
            assert_eq!(right.status == 503, lock, "{path}: {}", right.status);
            for body in [
                sent(&agent.id, &format!("AT_{}", "a".repeat(64))),
                sent("ZZZ999", &agent.token),
                sent(&agent.id, &agent.token.to_uppercase()),
            ] {
                let response = send_from_new_address(&engine, ("POST", path), body).await;
                assert_eq!(response.status, 401, "{path}");
                assert_eq!(*first.get_or_insert_with(|| response.clone()), response, "{path}");
            }
        }
    }
}

/// Over a socket, the answers of an open and of a locked wallet are compared byte by byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_06_on_the_wire_a_locked_wallet_answers_like_a_wrong_signature() {
    let home = tempfile::tempdir().unwrap();
    let engine = EngineProcess::start(&home.path().join("data"), &StartOptions::default());
    let mut operator = engine.operator().await;
    set_up_wallet(&mut operator, POLICY).await;
    let agent = add_agent(&mut operator, "bot", "hmac").await;
    let other = add_agent(&mut operator, "other", "hmac").await;
    let mut first: Option<Vec<u8>> = None;
    let mut ahead_s = 0;
    for state in ["open", "locked"] {
        if state == "locked" {
            operator.must("wallet lock").await;
        }
        for (path, message, sent) in endpoints() {
            // Failed proofs are counted per minute: advance the engine's clock past the window each time.
            ahead_s += 61;
            engine.set_clock_offset(ahead_s * 1000);
            let now = jiff::Timestamp::now().as_second() + ahead_s;
            let right = body(&sent, &agent.id, json!(agent.sign(now, &fields(&message))));
            let mut cases = wrong_proofs(&agent, &other, now, path);
            if state == "locked" {
                cases.push(("right".to_owned(), right));
            } else {
                let answer = exchange(&engine.url, "POST", path, "", right.as_bytes());
                assert!(!answer.starts_with(b"HTTP/1.1 401"), "{path}: a right proof is refused");
            }
            for (name, body) in cases {
                let answer = exchange(&engine.url, "POST", path, "", body.as_bytes());
                let first = first.get_or_insert_with(|| answer.clone());
                let (answer, first) =
                    (String::from_utf8_lossy(&answer), String::from_utf8_lossy(first));
                assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
                assert_eq!(answer, first, "{state} {path} {name}");
            }
        }
    }
}
