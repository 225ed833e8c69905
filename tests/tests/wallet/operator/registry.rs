//! Mandates at a registry: published after a question, looked up after a lost answer, replaced by their retirement.

use std::sync::Arc;

use bursar_control::answers::{Answer, MandateAnswer, MandateStatus};
use bursar_control::wire::Asking;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::status::EntryKind;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;
use bursar_tests::registry::{RegistryMode, TestRegistry};
use serde_json::Value;

struct Scene {
    engine: TestEngine,
    agent: Agent,
    registry: TestRegistry,
}

impl Scene {
    /// Starts an engine with one agent, its mandate, and an empty registry.
    async fn start() -> Self {
        let registry = TestRegistry::start().await;
        let engine = TestEngine::start(Setup::default()).await;
        engine.set_up_wallet("--day 10 --txn 5 --auto 0.5 --networks 8453").await;
        let agent = engine.add_agent("bot", "hmac").await;
        let mut operator = engine.operator();
        operator.must(&format!("config set registry.url {}", registry.url)).await;
        operator.must("mandate create bot").await;
        Self { engine, agent, registry }
    }

    async fn mandate(&self, line: &str) -> MandateAnswer {
        match self.engine.operator().must(line).await {
            Answer::Mandate(one) => *one,
            other => panic!("{other:?}"),
        }
    }

    async fn refused(&self, line: &str) -> Fault {
        self.engine.operator().run_refused(line).await
    }

    /// Returns the daily limit that the registry publishes, in millionths.
    fn published_limit(&self) -> Value {
        let mandate = self.registry.mandate_of(self.agent.id.as_str()).unwrap_or_default();
        mandate["authorization"]["limits"]["dailyLimit"].clone()
    }

    async fn registry_id(&self) -> Value {
        self.engine.post_read("/mandate", &self.agent).await["mandate_registry_id"].clone()
    }

    async fn doctor(&self) -> String {
        let Answer::Doctor { checks } = self.engine.operator().must("doctor").await else {
            panic!("checks")
        };
        let row = checks.into_iter().find(|check| check.check == "mandates");
        row.map_or_else(String::new, |row| row.finding)
    }
}

#[tokio::test]
async fn mandate_is_published_after_a_question_and_replaced_by_its_retirement() {
    let scene = Scene::start().await;
    let outcome = scene.engine.operator().outcome("mandate upload bot").await;
    let asked = format!("{:?}", outcome.prompts);
    let shown = scene.mandate("mandate show bot").await;
    for word in [
        "Publish it there?",
        scene.agent.id.as_str(),
        &shown.address,
        &shown.fingerprint,
        "10.00 USDC a day",
        "eip155:8453",
        "policy id",
    ] {
        assert!(asked.contains(word), "{word} in {asked}");
    }
    assert_eq!(scene.registry.take_calls(), ["POST"]);
    assert_eq!(scene.published_limit(), 10_000_000);
    assert_eq!(scene.registry_id().await, shown.id.as_str());
    let entry = &shown.registries[0].mandates[0];
    assert!(entry.is_newest && entry.confirmed.is_some(), "{entry:?}");
    assert!(entry.url.as_ref().unwrap().contains("mandate.html"));

    // A stale mandate is not published, and its copy there is not the new mandate's.
    scene.engine.operator().must("policy edit p --day 20").await;
    assert_eq!(scene.refused("mandate upload bot").await.code, Code::RequestNoLongerValid);
    scene.mandate("mandate create bot").await;
    assert_eq!(scene.registry_id().await, Value::Null);
    assert_eq!(scene.registry.take_calls(), [""; 0]);
    let second = scene.mandate("mandate upload bot").await;
    assert_eq!(scene.registry.take_calls(), ["POST", "GET id"], "it replaced the first one");
    assert_eq!(second.registries[0].mandates.len(), 1);
    assert_eq!(scene.published_limit(), 20_000_000);

    // Signed here only, then published.
    let retired = scene.mandate("mandate retire bot --no-upload").await;
    assert_eq!(retired.status, MandateStatus::RetiredPublished);
    assert_eq!(retired.status.text(), "retired here, still published");
    assert!(scene.doctor().await.contains("retired here, still published"));
    assert_eq!(scene.registry.take_calls(), [""; 0]);
    let outcome = scene.engine.operator().outcome("mandate retire bot").await;
    assert!(format!("{:?}", outcome.prompts).contains("Sign it and publish it there?"));
    assert_eq!(scene.registry.take_calls(), ["POST", "GET id"]);
    assert_eq!(scene.published_limit(), 0);
    assert_eq!(scene.mandate("mandate show bot").await.status, MandateStatus::Retired);
    assert_eq!(scene.doctor().await, "");
    // No question, and no call, where nothing is published.
    let outcome = scene.engine.operator().outcome("mandate retire bot").await;
    assert!(outcome.prompts.is_empty() && scene.registry.take_calls().is_empty());
}

#[tokio::test]
async fn nothing_is_published_without_consent_or_a_current_signed_mandate() {
    let scene = Scene::start().await;
    let mut silent = scene.engine.operator();
    silent.asking = Asking::Silent;
    assert_eq!(silent.run_refused("mandate upload bot").await.code, Code::ConfirmationNeeded);
    let mut dry = scene.engine.operator();
    dry.asking = Asking::DryRun;
    dry.must("mandate upload bot").await;
    let mut operator = scene.engine.operator();
    operator.must("freeze").await;
    assert_eq!(scene.refused("mandate upload bot").await.code, Code::AgentsFrozen);
    operator.must("thaw").await;
    operator.must("agent suspend bot").await;
    assert_eq!(scene.refused("mandate upload bot").await.code, Code::AgentSuspended);
    operator.must("agent resume bot").await;
    operator.must("config set registry.url none").await;
    let fault = scene.refused("mandate upload bot").await;
    assert!(fault.message.contains("config set registry.url"), "{fault}");
    operator.must("agent register other").await;
    operator.must(&format!("config set registry.url {}", scene.registry.url)).await;
    let fault = scene.refused("mandate upload other").await;
    assert!(fault.message.contains("mandate create"), "{fault}");
    operator.must("wallet lock").await;
    assert_eq!(scene.refused("mandate upload bot").await.code, Code::WalletLocked);
    assert_eq!(scene.registry.take_calls(), [""; 0]);
    let Answer::Activity(activity) = operator.must("activity --limit 200").await else { panic!() };
    assert!(activity.entries.iter().all(|row| row.kind != EntryKind::MandateUploadBegun));
}

#[tokio::test]
async fn lost_answer_is_looked_up_before_anything_is_sent_again() {
    use RegistryMode::{DropsTheAnswer, DropsTheRequest, Refuses, Says, Wraps};
    // The lookup right after the lost answer finds the mandate.
    let scene = Scene::start().await;
    scene.registry.next_posts([DropsTheAnswer]);
    scene.registry.next_lookups([Wraps]);
    scene.mandate("mandate upload bot").await;
    assert_eq!(scene.registry.take_calls(), ["POST", "GET id"]);

    // The registry does not answer at all: the outcome stays unknown until a lookup shows it.
    for (first, stored) in [(DropsTheAnswer, true), (DropsTheRequest, false)] {
        let scene = Scene::start().await;
        scene.registry.next_posts([first]);
        let down = || Refuses(500, "STORAGE_ERROR".to_owned());
        scene.registry.next_lookups([down(), down()]);
        let fault = scene.refused("mandate upload bot").await;
        assert_eq!(fault.code, Code::RegistryUnclear);
        assert!(fault.message.contains("`mandate upload"), "{fault}");
        assert_eq!(scene.registry_id().await, Value::Null);
        let shown = scene.mandate("mandate show bot").await;
        assert_eq!(shown.registries[0].mandates[0].confirmed, None);
        assert_eq!(scene.refused("mandate upload bot").await.code, Code::RegistryUnclear);
        assert_eq!(scene.registry.take_calls(), ["POST", "GET id", "GET id"]);
        scene.mandate("mandate upload bot").await;
        let wanted: &[&str] = if stored { &["GET id"] } else { &["GET id", "POST"] };
        assert_eq!(scene.registry.take_calls(), wanted);
        assert_eq!(scene.registry_id().await, shown.id.as_str());
    }

    // An upload without a known outcome counts as published when the mandate is retired.
    let scene = Scene::start().await;
    scene.registry.next_posts([Says(502, String::new())]);
    scene.registry.next_lookups([Refuses(502, String::new())]);
    scene.refused("mandate upload bot").await;
    let retired = scene.mandate("mandate retire bot --no-upload").await;
    assert_eq!(retired.status, MandateStatus::RetiredPublished);
    // Another refusal of the retirement leaves it so.
    scene.registry.next_posts([Refuses(429, String::new())]);
    assert_eq!(scene.refused("mandate retire bot").await.code, Code::RegistryRefused);
    assert_eq!(scene.mandate("mandate show bot").await.status, MandateStatus::RetiredPublished);
    scene.mandate("mandate retire bot").await;
    assert_eq!(scene.published_limit(), 0);
    assert_eq!(scene.mandate("mandate show bot").await.status, MandateStatus::Retired);
}

#[tokio::test]
async fn hostile_answers_publish_nothing_and_name_the_reason() {
    use RegistryMode::{Endless, NamesAnotherId, Redirects, Refuses, Says, ShowsAChange};
    let error = |code: &str| format!(r#"{{"error":"x","code":"{code}"}}"#);
    let scene = Scene::start().await;
    for (mode, word) in [
        (Refuses(400, error("INVALID_AGENT_ID")), "agent's code"),
        (Refuses(400, error("MISSING_AGENT_ID")), "agent.id"),
        (Refuses(400, error("INVALID_NETWORK")), "does not know a network"),
        (Refuses(400, error("INVALID_DAILY_LIMIT")), "daily limit"),
        (Refuses(400, "<html>\u{1b}[2J".to_owned()), "HTTP status 400"),
        (Refuses(403, error("SIGNER_MISMATCH")), "only that signer"),
        (Refuses(413, error("PAYLOAD_TOO_LARGE")), "too large"),
        (Refuses(403, String::new()), "HTTP status 403"),
        (Refuses(404, String::new()), "HTTP status 404"),
    ] {
        scene.registry.next_posts([mode]);
        let fault = scene.refused("mandate upload bot").await;
        assert_eq!(fault.code, Code::RegistryRefused, "{fault}");
        assert!(fault.message.contains(word) && !fault.message.contains('\u{1b}'), "{fault}");
        assert_eq!(scene.registry.take_calls(), ["POST"]);
        assert!(scene.mandate("mandate show bot").await.registries.is_empty());
    }
    for mode in [
        Redirects,
        Endless,
        Refuses(500, error("STORAGE_ERROR")),
        Refuses(409, error("DUPLICATE_ID")),
        Refuses(201, "<html>".to_owned()),
        Refuses(200, r#"{"id":"a b"}"#.to_owned()),
        Refuses(200, r#"{"id":"another"}"#.to_owned()),
    ] {
        scene.registry.next_posts([mode.clone()]);
        let fault = scene.refused("mandate upload bot").await;
        assert_eq!(fault.code, Code::RegistryUnclear, "{mode:?}: {fault}");
        assert_eq!(scene.published_limit(), Value::Null);
        assert_eq!(scene.registry_id().await, Value::Null);
    }
    // A copy that was changed there is replaced, and is not called ours.
    scene.registry.next_posts([NamesAnotherId]);
    assert_eq!(scene.refused("mandate upload bot").await.code, Code::RegistryUnclear);
    scene.registry.next_posts([Says(409, String::new())]);
    scene.registry.next_lookups([ShowsAChange, ShowsAChange]);
    let fault = scene.refused("mandate upload bot").await;
    assert!(fault.message.contains("another mandate with this id"), "{fault}");
    scene.registry.take_calls();
    let published = scene.mandate("mandate upload bot").await;
    assert_eq!(scene.registry_id().await, published.id.as_str());
    assert_eq!(scene.registry.take_calls(), ["POST"]);
}

#[tokio::test]
async fn changed_address_can_still_retire_what_it_published() {
    let scene = Scene::start().await;
    let mut operator = scene.engine.operator();
    scene.mandate("mandate upload bot").await;
    operator.must("address create second 1").await;
    operator.must("agent commission bot p second").await;
    scene.mandate("mandate create bot").await;
    let fault = scene.refused("mandate upload bot").await;
    assert!(fault.message.contains("only that signer"), "{fault}");
    // The first retirement is signed by the new address, the second by the one that published.
    assert_eq!(scene.refused("mandate retire bot").await.code, Code::RegistryRefused);
    assert_eq!(scene.published_limit(), 10_000_000);
    scene.mandate("mandate retire bot").await;
    assert_eq!(scene.published_limit(), 0);
    assert_eq!(scene.mandate("mandate show bot").await.status, MandateStatus::Retired);
}

#[tokio::test]
async fn answer_for_a_mandate_that_changed_meanwhile_is_kept() {
    let scene = Scene::start().await;
    scene.registry.next_posts([RegistryMode::Waits]);
    let engine = Arc::new(scene.engine);
    let mut operator = engine.operator();
    let uploading = tokio::spawn(async move { operator.outcome("mandate upload bot").await });
    while scene.registry.take_calls().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut operator = engine.operator();
    assert_eq!(operator.run_refused("mandate upload bot").await.code, Code::Busy);
    operator.must("agent instructions bot --regenerate").await;
    operator.must("mandate create bot").await;
    scene.registry.open_gate();
    uploading.await.unwrap().reply.result.unwrap();
    let Answer::Mandate(shown) = operator.must("mandate show bot").await else { panic!() };
    let [entry] = &shown.registries[0].mandates[..] else { panic!("{:?}", shown.registries) };
    assert!(!entry.is_newest && entry.confirmed.is_some() && entry.mandate != shown.id);

    // A wallet that was locked before the answer: the operator learns what the registry said.
    scene.registry.next_posts([RegistryMode::Waits]);
    let mut second = engine.operator();
    let uploading = tokio::spawn(async move { second.outcome("mandate upload bot").await });
    while scene.registry.take_calls().is_empty() {
        tokio::task::yield_now().await;
    }
    operator.must("wallet lock").await;
    scene.registry.open_gate();
    let fault = uploading.await.unwrap().reply.result.unwrap_err();
    assert_eq!(fault.code, Code::RegistryUnclear);
    assert!(fault.message.contains("publishes the mandate as"), "{fault}");
    operator.must("wallet open").await;
    operator.must("mandate upload bot").await;
    assert_eq!(scene.registry.take_calls(), ["GET id", "GET id"], "its own, and the earlier one");
}

#[tokio::test]
async fn registry_url_is_https_or_this_machine_and_hides_its_key() {
    let scene = Scene::start().await;
    for url in
        ["http://registry.example", "ftp://registry.example", "https://a@registry.example", "x"]
    {
        let fault = scene.refused(&format!("config set registry.url {url}")).await;
        assert_eq!(fault.code, Code::BadInput, "{url}");
    }
    let mut operator = scene.engine.operator();
    operator.must("config set registry.url https://registry.example/SECRET?key=SECRET").await;
    for line in ["config get registry.url", "config list", "activity --limit 5", "mandate show bot"]
    {
        let shown = format!("{:?}", operator.must(line).await);
        assert!(!shown.contains("SECRET"), "{line}: {shown}");
    }
    let revealed = format!("{:?}", operator.must("config get registry.url --reveal").await);
    assert!(revealed.contains("SECRET"));
}
