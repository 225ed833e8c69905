//! Mandates from the command to the agent's endpoints: what is signed, shown, stale and retired.

use bursar_control::answers::{Answer, MandateAnswer, MandateStatus};
use bursar_core::codes::Code;
use bursar_core::json::{self, Value as Json};
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use serde_json::Value;
use sha2::{Digest, Sha256};

async fn stage(auth: &str) -> (TestEngine, Agent) {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5 --networks 8453").await;
    let agent = engine.add_agent("bot", auth).await;
    (engine, agent)
}

async fn mandate(engine: &TestEngine, line: &str) -> MandateAnswer {
    match engine.operator().must(line).await {
        Answer::Mandate(one) => *one,
        other => panic!("{other:?}"),
    }
}

async fn refusal(engine: &TestEngine, line: &str) -> Code {
    engine.operator().run_refused(line).await.code
}

fn check(document: &Value) -> bursar_mandate::Presented {
    bursar_mandate::read(document.to_string().as_bytes()).expect("a mandate")
}

/// Returns the mandate of a payment's receipt.
async fn receipt_mandate(engine: &TestEngine, agent: &Agent, n: u64) -> Value {
    let body = agent.ask(engine.now_s(), &offer(12_000, n), None);
    let (status, paid) = engine.post("/sign", &body).await;
    assert_eq!(status, 200, "{paid}");
    let id = paid["transaction_id"].as_str().expect("an id").to_owned();
    engine.get(&format!("/receipt/{id}")).await.1["intent"]["mandateId"].clone()
}

#[tokio::test]
async fn mandate_is_signed_shown_to_its_agent_and_kept_by_its_payments() {
    let (engine, agent) = stage("hmac").await;
    let read = engine.post_read("/mandate", &agent).await;
    assert_eq!((&read["mandate"], read.get("mandate_id")), (&Value::Null, None));
    assert!(read["mandate_note"].is_string());
    assert_eq!(receipt_mandate(&engine, &agent, 1).await, Value::Null);
    let signed = mandate(&engine, "mandate create bot").await;
    assert_eq!(signed.status, MandateStatus::InForce);
    let document = signed.mandate.clone().expect("signed");
    let checked = check(&document);
    assert_eq!(checked.defects, []);
    assert_eq!(checked.statement.agent.as_deref(), Some(agent.id.as_str()));
    assert_eq!(
        (checked.statement.daily, checked.statement.per_request),
        (Some(10_000_000), Some(5_000_000))
    );
    assert_eq!(checked.statement.networks, ["eip155:8453"]);
    assert_eq!(checked.statement.currency.as_deref(), Some("USDC"));
    let text = document.to_string();
    for private in ["\"bot\"", "\"p\"", "\"pay\"", "main"] {
        assert!(!text.contains(private), "{private} in {text}");
    }
    let read = engine.post_read("/mandate", &agent).await;
    assert_eq!(read["mandate"], document);
    assert_eq!(read["mandate_id"], signed.id.as_str());
    assert_eq!(
        (&read["mandate_registry_id"], &read["mandate_stale"]),
        (&Value::Null, &false.into())
    );
    assert_eq!((read.get("mandate_note"), read.get("mandate_stale_reason")), (None, None));
    assert_eq!(receipt_mandate(&engine, &agent, 2).await, signed.id.as_str());
    // A second command signs nothing: the bytes are the same.
    assert_eq!(mandate(&engine, "mandate create bot").await, signed);
    let engine = engine.restart(Setup::default()).await;
    engine.operator().must("wallet open").await;
    assert_eq!(mandate(&engine, "mandate show bot").await, signed);
}

#[tokio::test]
async fn fingerprint_is_that_of_the_token_in_both_modes() {
    for auth in ["hmac", "bearer"] {
        let (engine, agent) = stage(auth).await;
        let signed = mandate(&engine, "mandate create bot").await;
        let stored = hex::encode(Sha256::digest(&agent.token));
        let wanted = hex::encode(Sha256::digest(stored));
        assert_eq!(signed.fingerprint, wanted.split_at(16).0, "{auth}");
    }
}

#[tokio::test]
async fn changed_policy_makes_it_stale_and_a_retirement_takes_it_from_the_agent() {
    let (engine, agent) = stage("bearer").await;
    let first = mandate(&engine, "mandate create bot").await;
    engine.operator().must("policy edit p --day 20").await;
    let read = engine.post_read("/mandate", &agent).await;
    assert_eq!(read["mandate_stale_reason"], "Daily limit changed");
    assert_eq!(
        (&read["mandate_stale"], &read["mandate_id"]),
        (&true.into(), &first.id.as_str().into())
    );
    let Answer::Mandates { mandates } = engine.operator().must("mandate list").await else {
        panic!()
    };
    assert_eq!(mandates[0].status, MandateStatus::Stale);
    let second = mandate(&engine, "mandate create bot").await;
    assert_ne!(second.id, first.id);
    assert_eq!(engine.post_read("/mandate", &agent).await["mandate_stale"], false);
    engine.operator().must("freeze").await;
    assert_eq!(refusal(&engine, "mandate create bot --new").await, Code::AgentsFrozen);
    let retired = mandate(&engine, "mandate retire bot").await;
    assert_eq!(retired.status, MandateStatus::Retired);
    let checked = check(&retired.mandate.expect("signed"));
    assert_eq!(checked.defects, []);
    assert_eq!((checked.statement.daily, checked.statement.auto_below), (Some(0), Some(0)));
    engine.operator().must("thaw").await;
    let read = engine.post_read("/mandate", &agent).await;
    assert_eq!((&read["mandate"], read.get("mandate_id")), (&Value::Null, None));
    assert_eq!(receipt_mandate(&engine, &agent, 3).await, Value::Null);
    // A deleted agent's mandate is retired by its code.
    let third = mandate(&engine, "mandate create bot").await;
    assert_eq!(third.status, MandateStatus::InForce);
    for line in [
        "agent suspend bot",
        "agent instructions bot --regenerate",
        "agent delete bot --confirm bot",
    ] {
        let warned = engine.operator().outcome(line).await.reply.warnings;
        assert!(warned.iter().any(|one| one.code == "MANDATE_STAYS_VALID"), "{line}: {warned:?}");
    }
    assert_eq!(refusal(&engine, "mandate show bot").await, Code::NothingFound);
    let line = format!("mandate retire {}", agent.id);
    assert_eq!(mandate(&engine, &line).await.status, MandateStatus::Retired);
}

#[tokio::test]
async fn commission_signs_a_mandate_on_request_and_a_locked_wallet_signs_none() {
    let (engine, agent) = stage("hmac").await;
    let done = engine.operator().outcome("agent commission bot p pay --mandate").await.reply;
    assert!(matches!(done.result, Ok(Answer::Agent(_))), "{:?}", done.result);
    let codes: Vec<&str> = done.warnings.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["MANDATE_SIGNED", "DISCLOSES"]);
    let read = engine.post_read("/mandate", &agent).await;
    assert!(read["mandate"].is_object());
    engine.operator().must("wallet lock").await;
    assert_eq!(refusal(&engine, "mandate create bot --new").await, Code::WalletLocked);
    assert_eq!(refusal(&engine, "mandate retire bot").await, Code::WalletLocked);
    // It is shown without the keys.
    assert_eq!(mandate(&engine, "mandate show bot").await.status, MandateStatus::InForce);
}

/// The text that is signed is CPython's, so the document that agents get reads back to it.
#[tokio::test]
async fn document_reads_back_to_the_signed_text() {
    let (engine, _agent) = stage("hmac").await;
    let signed = mandate(&engine, "mandate create bot").await;
    let document = signed.mandate.expect("signed").to_string();
    let checked = bursar_mandate::read(document.as_bytes()).expect("a mandate");
    let digest = alloy_primitives::eip191_hash_message(&checked.text);
    assert_eq!(signed.digest, digest.to_string());
    let Json::Object(text) = json::parse(checked.text.as_bytes(), 8).expect("JSON") else {
        panic!()
    };
    assert_eq!(text.get("signature"), None);
}

#[tokio::test]
async fn ap2_form_states_the_present_terms_unsigned() {
    let engine = TestEngine::start(Setup::default()).await;
    let policy = "--day 10 --txn 5 --networks 8453 --allow-domains shop.example";
    engine.set_up_wallet(policy).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    let shown = operator.must("mandate show bot --ap2 --until 7d").await;
    let Answer::Ap2(ap2) = shown else { panic!("{shown:?}") };
    let document = &ap2.document;
    assert!(!ap2.signed && document.get("signature").is_none());
    assert_eq!(document["user_cart_confirmation_required"], true);
    assert_eq!(document["merchants"], serde_json::json!(["shop.example"]));
    let description = document["natural_language_description"].as_str().unwrap();
    for word in [agent.id.as_str(), "5.00 USDC a payment", "10.00 USDC a day", "Base", "0x"] {
        assert!(description.contains(word), "{word} in {description}");
    }
    assert!(document["intent_expiry"].as_str().unwrap().ends_with('Z'));
    for (line, code) in [
        ("mandate show bot --ap2 --until 2020-01-01", Code::BadInput),
        ("mandate show nothing --ap2 --until 7d", Code::NothingFound),
    ] {
        assert_eq!(refusal(&engine, line).await, code, "{line}");
    }
}
