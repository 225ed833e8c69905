//! The rows of the appendix that the engine decides.

use bursar_core::edition::EditionName;
use bursar_core::networks::ChainId;
use bursar_engine::agent_api::{helper_of, skill_of};
use bursar_engine::edition::Edition;
use bursar_engine::vault::kdf::KdfParams;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{challenge, header, offer};
use bursar_tests::operator::Expect;
use serde_json::{Map, Value, json};

const TX: &str = "0x0101010101010101010101010101010101010101010101010101010101010101";

/// Returns a body of `/mandate` for this action.
fn mandate_body(agent: &Agent, now: i64, action: &str) -> Value {
    let signature = agent.sign(now, &Map::from_iter([("action".to_owned(), json!(action))]));
    json!({ "agent_code": agent.id, "signature": signature })
}

async fn wallet(policy: &str) -> (TestEngine, Agent) {
    let engine =
        TestEngine::start(Setup { edition: EditionName::Payments, ..Setup::default() }).await;
    engine.set_up_wallet(policy).await;
    let agent = engine.add_agent("bot", "hmac").await;
    (engine, agent)
}

#[tokio::test]
async fn row_agent_field_is_agent_code_in_bodies_messages_and_answers() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 0").await;
    let now = engine.now_s();
    // A body or a signature with the other field is not a proof.
    let other = Agent { field: "agent_id", ..agent.clone() }.ask(now, &offer(1_000, 1), None);
    let (status, answer) = engine.post("/sign", &other).await;
    assert_eq!((status, &answer["code"]), (400, &json!("MISSING_AGENT_CODE")));
    let mut both = other.clone();
    both["agent_code"] = json!(agent.id);
    assert_eq!(engine.post("/sign", &both).await.0, 401, "a signature over agent_id");
    let (status, pending) = engine.post("/sign", &agent.ask(now, &offer(1_000, 1), None)).await;
    assert_eq!((status, &pending["agent_code"]), (202, &json!(agent.id)), "{pending}");
    assert!(pending.get("agent_id").is_none());
}

#[tokio::test]
async fn row_endpoints_are_the_seven_and_four_others() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let id = "6fa459ea-ee8a-4ca4-894e-db77e160355e";
    for (method, path) in [
        ("GET", "/health".to_owned()),
        ("POST", "/sign".to_owned()),
        ("GET", format!("/sign/status/{id}")),
        ("POST", "/mandate".to_owned()),
        ("POST", "/callback".to_owned()),
        ("GET", format!("/receipt/{id}")),
        ("GET", "/agent".to_owned()),
        ("GET", "/openapi.json".to_owned()),
        ("POST", "/ping".to_owned()),
        ("GET", "/status".to_owned()),
        ("GET", "/sign/helper".to_owned()),
    ] {
        let (_status, bytes) = engine.raw(method, &path, Vec::new()).await;
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            !text.contains("NOT_FOUND\"")
                || text.contains("REQUEST_NOT_FOUND")
                || text.contains("TRANSACTION_NOT_FOUND"),
            "{path}: {text}"
        );
    }
    let before = engine.engine.core().view().head;
    let now = engine.now_s();
    for path in
        ["/", "/trade", "/venues", "/position", "/balances", "/agent/partner", "/agent/other"]
    {
        let body = agent.trade(now, &json!({}));
        let (status, answer) = engine.post(path, &body).await;
        assert_eq!((status, &answer["code"]), (404, &json!("NOT_FOUND")), "{path}");
    }
    for path in [format!("/trade/status/{id}"), format!("/position/status/{id}")] {
        assert_eq!(engine.get(&path).await.0, 404, "{path}");
    }
    assert_eq!(engine.engine.core().view().head, before, "nothing is recorded");
}

#[tokio::test]
async fn row_sign_success_has_the_four_fields() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let (status, answer) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(1_000, 1), None)).await;
    assert_eq!(status, 200, "{answer}");
    let fields: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["header_name", "header_value", "status", "transaction_id"]);
    assert_eq!(answer["status"], "success");
}

#[tokio::test]
async fn row_pending_is_polled_by_its_request_id_and_names_the_agent_code() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 0").await;
    let body = agent.ask(engine.now_s(), &offer(1_000, 1), None);
    let (status, pending) = engine.post("/sign", &body).await;
    assert_eq!((status, &pending["status"]), (202, &json!("pending")), "{pending}");
    let id = pending["request_id"].as_str().unwrap();
    let poll = async || engine.get(&format!("/sign/status/{id}")).await;
    let (status, polled) = poll().await;
    assert_eq!((status, &polled["agent_code"]), (202, &json!(agent.id)), "{polled}");
    assert!(polled.get("agent_id").is_none(), "{polled}");
    engine.operator().must(&format!("approve {id} --yes")).await;
    let (status, signed) = poll().await;
    assert_eq!((status, &signed["status"]), (200, &json!("success")), "{signed}");
    assert_eq!(
        (&signed["transaction_id"], &signed["header_name"]),
        (&json!(id), &json!("PAYMENT-SIGNATURE"))
    );
}

#[tokio::test]
async fn row_mandate_accepts_both_actions_and_has_no_trading() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let now = engine.now_s();
    for action in ["agent_read", "get_mandate"] {
        let body = mandate_body(&agent, now, action);
        let (status, answer) = engine.post("/mandate", &body).await;
        assert_eq!((status, &answer["agent_code"]), (200, &json!(agent.id)), "{answer}");
        assert_eq!(answer["mandate"], Value::Null);
        assert!(answer["mandate_note"].is_string());
        let policy = answer["policy"].as_object().unwrap();
        assert!(!policy.contains_key("trading") && !policy.contains_key("morpho"), "{answer}");
        assert_eq!(answer["networks"], json!(["eip155:8453", "eip155:1187947933"]));
    }
    let other = mandate_body(&agent, now, "trade");
    assert_eq!(engine.post("/mandate", &other).await.0, 401);
}

#[tokio::test]
async fn row_settlement_callback_without_a_proof_moves_forward_only() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let now = engine.now_s();
    let (_status, signed) = engine.post("/sign", &agent.ask(now, &offer(1_000, 1), None)).await;
    let id = signed["transaction_id"].as_str().unwrap();
    let report = |event: &str, hash: Option<&str>| json!({ "agent_code": agent.id, "transaction_id": id, "event": event, "tx_hash": hash });
    let (status, answer) = engine.post("/callback", &report("failed", None)).await;
    assert_eq!((status, &answer["new_status"]), (200, &json!("failed")), "{answer}");
    // The chain has not shown that the payment settled, so the status does not move.
    let (status, answer) = engine.post("/callback", &report("settled", Some(TX))).await;
    assert_eq!((status, &answer["new_status"]), (200, &json!("failed")), "{answer}");
    let (status, answer) =
        engine.post("/callback", &agent.report(now, id, "settled", Some(TX))).await;
    assert_eq!((status, &answer["new_status"]), (200, &json!("settled")), "{answer}");
    let (_status, answer) = engine.post("/callback", &report("failed", None)).await;
    assert_eq!(answer["new_status"], "settled");
    // A caller without a proof learns nothing about other agents and ids.
    let mut foreign = report("submitted", None);
    foreign["agent_code"] = json!("ZZZ999");
    assert_eq!(engine.post("/callback", &foreign).await.0, 401);
    let mut unknown = report("submitted", None);
    unknown["transaction_id"] = json!("6fa459ea-ee8a-4ca4-894e-db77e160355e");
    assert_eq!(engine.post("/callback", &unknown).await.0, 401);
    engine.operator().must("wallet lock").await;
    let (status, answer) = engine.post("/callback", &report("submitted", None)).await;
    assert_eq!((status, &answer["code"]), (401, &json!("AUTH_FAILED")));
}

/// Half of the reports of a payment remain for the agent, although another caller knows its id.
#[tokio::test]
async fn row_settlement_reports_without_a_proof_leave_room_for_the_agent() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let now = engine.now_s();
    let (_status, signed) = engine.post("/sign", &agent.ask(now, &offer(1_000, 1), None)).await;
    let id = signed["transaction_id"].as_str().unwrap();
    for n in 0..20 {
        let hash = format!("0x{n:064x}");
        for event in ["submitted", "settled", "failed"] {
            let report = json!({ "agent_code": agent.id, "transaction_id": id, "event": event,
                "tx_hash": hash, "signature": null });
            let (status, answer) = engine.post("/callback", &report).await;
            assert_eq!(status, 200, "{answer}");
            assert_ne!(answer["new_status"], "settled", "the chain has not shown it");
        }
    }
    let (_status, answer) =
        engine.post("/callback", &agent.report(now, id, "settled", Some(TX))).await;
    assert_eq!(answer["new_status"], "settled", "{answer}");
}

#[tokio::test]
async fn row_rate_limit_counts_reports_without_a_proof_before_they_act() {
    let usual =
        TestEngine::start(Setup { edition: EditionName::Payments, ..Setup::default() }).await;
    let rate = usual.operator().must("config get server.rate_per_minute").await;
    let rate = serde_json::to_value(rate).unwrap().to_string();
    assert!(rate.contains("\"300\""), "{rate}");
    let setup = Setup {
        edition: EditionName::Payments,
        settings: "[server]\nrate_per_minute = 3\n",
        ..Setup::default()
    };
    let engine = TestEngine::start(setup).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let (_status, signed) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(1_000, 1), None)).await;
    let head = || engine.engine.core().view().head;
    let mut last = head();
    for n in 0..5 {
        let report = json!({ "agent_code": agent.id, "event": "settled",
            "transaction_id": signed["transaction_id"], "tx_hash": format!("0x{n:064x}") });
        let status = engine.post("/callback", &report).await.0;
        assert_eq!(status, if n < 3 { 200 } else { 429 });
        if status == 429 {
            assert_eq!(head(), last, "a refused report is not recorded");
        }
        last = head();
    }
}

#[tokio::test]
async fn row_receipt_names_the_agent_by_code_and_name() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let (_status, signed) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(1_000, 1), None)).await;
    let receipt =
        engine.get(&format!("/receipt/{}", signed["transaction_id"].as_str().unwrap())).await.1;
    assert_eq!(receipt["intent"]["agent"], json!({ "code": agent.id, "name": "bot" }));
    // Also by the hash of a reported transaction; the test's caller is on this machine.
    let by_hash = format!("/receipt/{TX}");
    assert_eq!(engine.get(&by_hash).await.0, 404, "nothing was reported");
    let report = json!({ "agent_code": agent.id, "transaction_id": signed["transaction_id"],
        "event": "submitted", "tx_hash": TX });
    assert_eq!(engine.post("/callback", &report).await.0, 200);
    let (status, found) = engine.get(&by_hash).await;
    assert_eq!((status, &found["transactionId"]), (200, &signed["transaction_id"]), "{found}");
    assert_eq!(found["settlement"]["txHash"], TX);
    // A second payment cannot take the hash before the chain shows it there.
    let (_status, other) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(1_000, 2), None)).await;
    let mut claim = report.clone();
    claim["transaction_id"] = other["transaction_id"].clone();
    assert_eq!(engine.post("/callback", &claim).await.0, 200);
    assert_eq!(engine.get(&by_hash).await.1["transactionId"], signed["transaction_id"]);
}

#[tokio::test]
async fn row_policy_has_no_trades_and_no_loans() {
    let (engine, _agent) = wallet("--day 10 --txn 10 --auto 5").await;
    let mut operator = engine.operator();
    for line in [
        "policy create t --trading",
        "policy create l --lending",
        "policy create n --networks 4663",
        "policy edit p --trading",
        "quote pay 1 ETH USDC",
        "venues",
        "positions",
        "allowances",
    ] {
        let outcome = operator.outcome(line).await;
        let fault = outcome.reply.result.expect_err(line);
        assert_eq!(fault.code.text(), "BAD_INPUT", "{line}: {fault}");
    }
}

#[tokio::test]
async fn row_networks_are_six_and_each_can_be_disabled() {
    let (engine, agent) = wallet("--day 10 --txn 10 --auto 0").await;
    let mut operator = engine.operator();
    let listed = serde_json::to_value(operator.must("network list").await).unwrap().to_string();
    for (chain, known) in [("4663", false), ("46630", false), ("8453", true), ("11155111", true)] {
        assert_eq!(listed.contains(&format!("eip155:{chain}\"")), known, "{chain}: {listed}");
        let line = format!("network enable {chain}");
        assert_eq!(operator.outcome(&line).await.reply.result.is_ok(), known, "{line}");
        let line = format!("config get networks.{chain}.rpc");
        assert_eq!(operator.outcome(&line).await.reply.result.is_ok(), known, "{line}");
    }
    // An offer on a network of the full edition is unknown here.
    let now = engine.now_s();
    let foreign = header(&challenge(ChainId(4663), 1_000, "https://api.example.com/x"));
    let (status, answer) = engine.post("/sign", &agent.ask(now, &foreign, None)).await;
    assert_eq!((status, &answer["code"]), (400, &json!("UNKNOWN_NETWORK")), "{answer}");
    // A held request is not signed after its network was disabled.
    let (status, held) = engine.post("/sign", &agent.ask(now, &offer(1_000, 2), None)).await;
    assert_eq!(status, 202, "{held}");
    operator.must("network disable base").await;
    let id = held["request_id"].as_str().unwrap();
    let approved = operator.outcome(&format!("approve {id} --yes")).await.reply.result;
    assert!(approved.is_err(), "{approved:?}");
    let polled = engine.get(&format!("/sign/status/{id}")).await.1;
    assert!(polled.get("header_value").is_none(), "{polled}");
}

#[test]
fn row_key_derivation_is_64_mib() {
    let edition = Edition::payments();
    assert_eq!(edition.kdf, KdfParams { memory_kib: 65_536, iterations: 3, parallelism: 4 });
    // Files of the full edition open too.
    assert_eq!(edition.kdf_bounds.check(&KdfParams::FULL), Ok(()));
}

#[test]
fn texts_for_agents_name_only_what_the_edition_has() {
    let edition = Edition::payments();
    for text in [skill_of(&edition), helper_of(&edition)] {
        for word in [
            "agent_id",
            "MISSING_AGENT_ID",
            "/trade",
            "/venues",
            "/position",
            "/balances",
            "lend",
            "[[",
        ] {
            assert!(!text.contains(word), "{word}");
        }
        assert!(text.contains("agent_code"));
    }
    for text in [skill_of(&Edition::full()), helper_of(&Edition::full())] {
        assert!(text.contains("agent_id") && text.contains("/trade") && !text.contains("[["));
    }
}
