//! Agents, addresses, policies and seeds: changing, deleting and querying them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_control::answers::{AgentAnswer, Answer, RehearsalAnswer};
use bursar_control::wire::{Asking, Prompt};
use bursar_core::codes::Code;
use bursar_core::time::Utc;
use bursar_engine::engine::Mode;
use bursar_engine::ports::Signer;
use bursar_tests::agent::Agent;
use bursar_tests::doubles::SlowSigner;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

async fn engine() -> TestEngine {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5 --allow-domains api.example.com").await;
    engine
}

async fn agent(engine: &TestEngine, line: &str) -> AgentAnswer {
    match engine.operator().must(line).await {
        Answer::Agent(agent) => agent,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_is_given_another_policy_or_address() {
    let engine = engine().await;
    let mut operator = engine.operator();
    operator.must("policy create q --day 1").await;
    operator.must("address create other 1").await;
    let bot = engine.add_agent("bot", "bearer").await;
    let url = Some("https://api.example.com/x");
    engine.post("/sign", &bot.ask(engine.now_s(), &offer(12_000, 1), url)).await;
    let edited = agent(&engine, "agent edit bot --policy q").await;
    assert_eq!((edited.policy.as_deref(), edited.label.as_deref()), (Some("q"), Some("pay")));
    let edited = agent(&engine, "agent edit bot --address other").await;
    assert_eq!((edited.policy.as_deref(), edited.label.as_deref()), (Some("q"), Some("other")));
    assert_eq!(edited.spent_today, "0.012", "another policy does not give another day");
    assert_eq!(operator.run_refused("agent edit bot --policy none").await.code, Code::NothingFound);
    operator.must("agent register idle").await;
    let refused = operator.run_refused("agent edit idle --policy q").await;
    assert_eq!(refused.code, Code::AgentNotCommissioned);
    operator.must("wallet lock").await;
    assert_eq!(operator.run_refused("agent edit bot --policy p").await.code, Code::WalletLocked);
    assert!(bursar_control::grammar::Order::parse_line("agent edit bot").is_err());
}

/// Returns `renews_at`, or the reason for which it is null; exactly one of the two fields is a text.
fn renewal(answer: &Value) -> Result<String, String> {
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    match (text("renews_at"), text("renews_at_unknown_reason")) {
        (Some(time), None) => Ok(time),
        (None, Some(reason)) => Err(reason),
        odd => panic!("{odd:?} in {answer}"),
    }
}

/// Returns the renewal of the agent's allowance as agent and operator read it; both must agree.
async fn shown_renewal(engine: &TestEngine, bot: &Agent) -> Result<String, String> {
    let shown = renewal(&engine.operator().must(&format!("agent show {}", bot.id)).await.data());
    assert_eq!(renewal(&engine.post_read("/mandate", bot).await), shown);
    assert_eq!(renewal(&engine.post_read("/status", bot).await["agent"]), shown);
    shown
}

#[tokio::test]
async fn a_renewal_at_an_unknown_time_has_a_reason() {
    // Without a boot clock and a chain, nothing confirms that a day has passed.
    let clock = ManualClock::new(Utc::from_seconds(NEW_YEAR_S)).without_boot_clock();
    let engine = TestEngine::start(Setup { clock: Arc::new(clock), ..Setup::default() }).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5").await;
    let bot = engine.add_agent("bot", "hmac").await;
    assert_eq!(shown_renewal(&engine, &bot).await, Ok("2026-01-02T00:00:00Z".to_owned()));
    engine.clock.advance(36 * 3_600_000);
    let reason = shown_renewal(&engine, &bot).await.expect_err("held back");
    assert!(reason.contains("clock") && reason.contains("agent renew"), "{reason}");
    engine.operator().must("agent renew bot").await;
    assert_eq!(shown_renewal(&engine, &bot).await, Ok("2026-01-03T00:00:00Z".to_owned()));

    engine.operator().must("agent register idle").await;
    let idle = engine.operator().must("agent show idle").await.data();
    let reason = renewal(&idle).expect_err("no allowance");
    assert!(reason.contains("no policy"), "{reason}");
}

#[tokio::test]
async fn a_deleted_agent_is_rejected_at_once_and_its_history_stays() {
    let engine = engine().await;
    let mut operator = engine.operator();
    for auth in ["hmac", "bearer"] {
        let bot = engine.add_agent(auth, auth).await;
        let url = Some("https://api.example.com/x");
        let ask = bot.ask(engine.now_s(), &offer(2_000_000, 1), url);
        let (status, held) = engine.post("/sign", &ask).await;
        assert_eq!(status, 202, "{held}");
        let early = operator.outcome(&format!("agent delete {auth}")).await;
        let Err(fault) = early.reply.result else { panic!("{:?}", early.reply.result) };
        assert_eq!(fault.code, Code::InUse);
        let stop = format!(" To stop it now: `agent suspend {}`.", bot.id);
        let deny = "1 of its requests waits for your decision: deny it first.";
        assert_eq!(fault.message, format!("{deny}{stop}"));
        // The agent is suspended already, so the message no longer suggests it.
        operator.must(&format!("agent suspend {auth}")).await;
        assert_eq!(operator.run_refused(&format!("agent delete {auth}")).await.message, deny);
        operator.must(&format!("agent resume {auth}")).await;
        assert_eq!(early.prompts, [], "nobody types a name for what will be refused");
        operator.must(&format!("deny {}", held["request_id"].as_str().unwrap())).await;
        let deleted = operator.outcome(&format!("agent delete {auth}")).await;
        assert!(matches!(deleted.prompts[..], [Prompt::TypeName { .. }]), "{:?}", deleted.prompts);
        assert_eq!(deleted.reply.result, Ok(Answer::Deleted { name: auth.into() }));
        assert_eq!(deleted.reply.warnings, []);
        let (status, answer) =
            engine.post("/sign", &bot.ask(engine.now_s(), &offer(1, 2), url)).await;
        assert_eq!((status, &answer["code"]), (401, &json!("AUTH_FAILED")));
        assert_eq!(
            operator.run_refused(&format!("agent show {auth}")).await.code,
            Code::NothingFound
        );
        let line = format!("history --agent {}", bot.id);
        let Answer::History(history) = operator.must(&line).await else { panic!() };
        assert_eq!(history.requests.len(), 1);
        let row = &history.requests[0];
        assert!(row.agent.is_none() && row.agent_unknown_reason.is_some(), "{row:?}");
    }
    // The wallet opens again without warnings.
    drop(operator);
    let engine = engine.restart(Setup::default()).await;
    let opened = engine.operator().outcome("wallet open").await;
    assert_eq!(opened.reply.warnings, []);
}

/// A slip in flight to the vault is void once its agent is deleted or suspended.
#[tokio::test]
async fn no_signature_is_made_after_its_agent_was_deleted_or_suspended() {
    for line in ["agent delete bot", "agent suspend bot"] {
        let (signer, mut sign_requests) = SlowSigner::machine();
        let setup = Setup { signer: Some(signer), ..Setup::default() };
        let engine = Arc::new(TestEngine::start(setup).await);
        engine.set_up_wallet("--day 10 --txn 5 --auto 0.5").await;
        let agent = engine.add_agent("bot", "bearer").await;
        let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
        let asking = Arc::clone(&engine);
        let ask = tokio::spawn(async move { asking.post("/sign", &body).await });
        let held_back = sign_requests.recv().await.expect("the authorization is committed");
        engine.operator().must(line).await;
        let late = engine.engine.vault().sign(held_back.slip, held_back.terms).await;
        assert!(late.is_err(), "{line}: a signature left");
        held_back.answer.send(late).unwrap();
        assert_eq!(ask.await.unwrap().0, 202, "{line}");
        assert!(sign_requests.try_recv().is_err(), "{line}: no new slip");
    }
}

#[tokio::test]
async fn irreversible_commands_need_confirmation() {
    let engine = engine().await;
    engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    operator.must("address create other 1").await;
    operator.asking = Asking::Silent;
    for line in ["agent delete bot", "address delete other"] {
        assert_eq!(operator.run_refused(line).await.code, Code::ConfirmationNeeded, "{line}");
    }
    operator.asking = Asking::Agreed;
    // Permanent loss needs the typed name, not only a yes.
    assert_eq!(operator.run_refused("agent delete bot").await.code, Code::ConfirmationNeeded);
    let other = operator.run_refused("agent delete bot --confirm bit").await;
    assert_eq!(other.code, Code::Declined);
    operator.must("agent delete bot --confirm bot").await;
    operator.must("address delete other").await;
    assert_eq!(operator.run_refused("address delete other").await.code, Code::NothingFound);
}

#[tokio::test]
async fn a_deleted_wallet_leaves_its_journal_and_pays_nothing() {
    let engine = engine().await;
    let bot = engine.add_agent("bot", "bearer").await;
    let url = Some("https://api.example.com/x");
    let spent = bot.ask(engine.now_s(), &offer(400_000, 1), url);
    assert_eq!(engine.post("/sign", &spent).await.0, 200);
    let held = bot.ask(engine.now_s(), &offer(2_000_000, 2), url);
    let (status, held) = engine.post("/sign", &held).await;
    assert_eq!(status, 202, "{held}");
    let mut operator = engine.operator();
    let refused = operator.run_refused("wallet delete --confirm main").await;
    assert_eq!(refused.code, Code::InUse, "what waits is decided first");
    operator.must(&format!("deny {}", held["request_id"].as_str().unwrap())).await;
    assert_eq!(operator.run_refused("wallet delete --confirm other").await.code, Code::Declined);
    operator.passwords.push_back("another password".to_owned());
    let refused = operator.run_refused("wallet delete --confirm main").await;
    assert_eq!(refused.code, Code::WrongPassword);
    operator.asking = Asking::Agreed;
    let unnamed = engine.while_time_passes(operator.run_refused("wallet delete")).await;
    assert_eq!(unnamed.code, Code::ConfirmationNeeded);

    let deleted = operator.outcome("wallet delete --confirm main").await.reply;
    assert_eq!(deleted.result, Ok(Answer::Deleted { name: "main".to_owned() }));
    let kept = deleted.warnings.iter().find(|kept| kept.code == "JOURNAL_KEPT");
    assert!(kept.is_some_and(|kept| kept.message.contains("1 agent and 1 policy")), "{deleted:?}");
    let left = std::fs::read_dir(engine.folder.join("wallets")).unwrap().count();
    assert_eq!(left, 0, "no copy is left");
    let asked = bot.ask(engine.now_s(), &offer(400_000, 3), url);
    assert_eq!(engine.post("/sign", &asked).await.0, 503, "there is no wallet");
    for line in ["wallet open", "wallet delete --confirm main"] {
        assert_eq!(operator.run_refused(line).await.code, Code::NoWallet, "{line}");
    }

    // A new wallet neither pays for the old wallet's agents by itself, nor grants them a second allowance for today.
    let engine = engine.restart(Setup::default()).await;
    let mut operator = engine.operator();
    let created = operator.outcome("wallet create second").await.reply;
    let untrusted = created.warnings.iter().any(|warning| warning.code == "JOURNAL_UNTRUSTED");
    assert!(untrusted, "the seals of the journal are the old wallet's: {created:?}");
    operator.must("audit accept").await;
    operator.must("seed create").await;
    operator.must("address create pay 0").await;
    let shown = agent(&engine, "agent show bot").await;
    assert_eq!((shown.status.text(), shown.spent_today.as_str()), ("suspended", "0.40"));
    operator.must("agent resume bot").await;
    let asked = bot.ask(engine.now_s(), &offer(400_000, 4), url);
    assert_eq!(engine.post("/sign", &asked).await.0, 200);
    assert_eq!(agent(&engine, "agent show bot").await.spent_today, "0.80");
}

/// The engine was killed during a deletion: the journal has its entry, but the file still exists.
#[tokio::test]
async fn a_half_deleted_wallet_is_recovered_with_its_agents() {
    let engine = engine().await;
    let bot = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    let Answer::Addresses { addresses: before } = operator.must("address list").await else {
        panic!()
    };
    let file = engine.folder.join("wallets/main.wallet");
    let left = std::fs::read(&file).unwrap();
    operator.must("wallet delete --confirm main").await;
    let put_back = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    };
    put_back(&left);

    let engine = engine.restart(Setup::default()).await;
    let mut operator = engine.operator();
    let Answer::Wallet(found) = operator.must("wallet status").await else { panic!() };
    assert_eq!((found.exists, found.recoverable.as_deref()), (false, Some("main")));
    let hint = operator.run_refused("wallet open").await.hint;
    assert_eq!(hint.as_deref(), Some("wallet recover main"));
    operator.must("wallet recover main").await;
    operator.must("wallet open").await;
    operator.must("audit accept").await;
    operator.must("address create pay 0").await;
    let Answer::Addresses { addresses: again } = operator.must("address list").await else {
        panic!()
    };
    assert_eq!(again[0].address, before[0].address);
    let shown = agent(&engine, "agent show bot").await;
    let answer = (shown.agent_id.as_str(), shown.name.as_str(), shown.status.text());
    assert_eq!(answer, (bot.id.as_str(), "bot", "suspended"));

    // An agent with a different secret counts as a different agent.
    let left = std::fs::read(&file).unwrap();
    operator.must("agent instructions bot --regenerate").await;
    operator.must("wallet delete --confirm main").await;
    put_back(&left);
    let engine = engine.restart(Setup::default()).await;
    let refused = engine.operator().run_refused("wallet recover main").await;
    assert_eq!(refused.code, Code::InUse, "{}", refused.message);
}

/// Without the file no password can be checked; the seed words restore the addresses.
#[tokio::test]
async fn a_lost_wallet_file_keeps_the_journal_and_its_words_restore_addresses() {
    let engine = engine().await;
    let bot = engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    let Answer::Addresses { addresses: before } = operator.must("address list").await else {
        panic!()
    };
    let words = operator.outcome("seed words S001").await.secret.expect("the words");
    std::fs::remove_dir_all(engine.folder.join("wallets")).unwrap();

    let engine = engine.restart(Setup::default()).await;
    let mut operator = engine.operator();
    let lost = operator.run_refused("wallet open").await;
    assert_eq!(lost.code, Code::NoWallet);
    assert_eq!(lost.hint.as_deref(), Some("wallet restore <file>"));
    for advice in ["`wallet delete`", "`seed import`"] {
        assert!(lost.message.contains(advice), "{}", lost.message);
    }
    assert_eq!(operator.run_refused("wallet delete --confirm other").await.code, Code::Declined);
    operator.must("wallet delete --confirm main").await;
    operator.must("wallet create main").await;
    operator.must("audit accept").await;
    operator.phrase = words;
    operator.must("seed import").await;
    operator.must("address create pay 0").await;
    let Answer::Addresses { addresses: again } = operator.must("address list").await else {
        panic!()
    };
    assert_eq!(again[0].address, before[0].address);
    let suspended = bot.ask(engine.now_s(), &offer(400_000, 1), None);
    assert_ne!(engine.post("/sign", &suspended).await.0, 200);
}

#[tokio::test]
async fn an_address_is_renamed_under_its_agents() {
    let engine = engine().await;
    let bot = engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    let Answer::Address(renamed) = operator.must("address rename pay 'new label'").await else {
        panic!()
    };
    assert_eq!(renamed.label, "new label");
    assert_eq!(agent(&engine, "agent show bot").await.label.as_deref(), Some("new label"));
    let ask = bot.ask(engine.now_s(), &offer(12_000, 1), Some("https://api.example.com/x"));
    assert_eq!(engine.post("/sign", &ask).await.0, 200);
    assert_eq!(operator.run_refused("address delete 'new label'").await.code, Code::InUse);
    assert_eq!(operator.run_refused("address rename pay x").await.code, Code::NothingFound);
}

async fn rehearse(engine: &TestEngine, line: &str) -> RehearsalAnswer {
    match engine.operator().must(line).await {
        Answer::Rehearsal(rehearsal) => rehearsal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_policy_test_returns_its_decision_without_a_request() {
    let engine = engine().await;
    let mut operator = engine.operator();
    let listed = "--domain api.example.com";
    for (line, verdict, code) in [
        (format!("policy test p 0.4 {listed}"), "act", None),
        (format!("policy test p 0.5 {listed}"), "hold", Some("above_threshold")),
        (format!("policy test p 5.01 {listed}"), "refuse", Some("EXCEEDS_PER_REQUEST_MAX")),
        ("policy test p 0.4".to_owned(), "refuse", Some("DOMAIN_URL_REQUIRED")),
        (
            "policy test p 0.4 --domain evil.example".to_owned(),
            "refuse",
            Some("DOMAIN_NOT_ALLOWED"),
        ),
        (format!("policy test p 0.4 {listed} --network 1"), "refuse", Some("NETWORK_DISABLED")),
    ] {
        let rehearsal = rehearse(&engine, &line).await;
        assert_eq!(
            (rehearsal.verdict.text(), rehearsal.code.as_deref()),
            (verdict, code),
            "{line}"
        );
    }
    assert_eq!(operator.run_refused("policy test none 1").await.code, Code::NothingFound);
    assert_eq!(operator.run_refused("policy test p 1 --network x").await.code, Code::NothingFound);
    assert_eq!(operator.run_refused("policy test p 1 --domain 'a b'").await.code, Code::BadInput);
    operator.must("freeze").await;
    let frozen = rehearse(&engine, "policy test p 0.4").await;
    assert_eq!(frozen.code.as_deref(), Some("AGENTS_FROZEN"));
    let Answer::History(history) = operator.must("history").await else { panic!() };
    assert_eq!(history.requests, [], "nothing was asked");
}

#[tokio::test]
async fn limits_without_effect_produce_a_warning() {
    let engine = engine().await;
    let mut operator = engine.operator();
    for (line, warnings) in [
        ("policy create a --day 10 --txn 5 --auto 5", 0),
        ("policy create b --day 10 --txn 5 --auto 5.01", 1),
        ("policy edit b --auto 1", 0),
        ("policy edit b --txn 11", 1),
        ("policy edit b --auto 12", 2),
    ] {
        let reply = operator.outcome(line).await.reply;
        assert!(reply.result.is_ok(), "{line}");
        let doubts = reply.warnings.iter().filter(|warning| warning.code == "LIMIT_WITHOUT_EFFECT");
        assert_eq!(doubts.count(), warnings, "{line}");
    }
}

#[tokio::test]
async fn a_network_is_named_as_it_is_shown() {
    let engine = engine().await;
    let mut operator = engine.operator();
    operator.must("network enable 'base sepolia'").await;
    operator.must("policy create named --networks 'Base Sepolia'").await;
    let Answer::Policy(policy) = operator.must("policy show named").await else { panic!() };
    assert_eq!(
        (policy.all_enabled, &policy.networks[..]),
        (false, &["Base Sepolia (84532)".into()][..])
    );
    let Answer::Policy(policy) = operator.must("policy show p").await else { panic!() };
    assert!(policy.all_enabled && policy.networks.contains(&"Base Sepolia (84532)".into()));
    let judged = rehearse(&engine, "policy test named 0.4 --network 'BASE SEPOLIA'").await;
    assert_eq!(judged.network, "Base Sepolia");
}

#[tokio::test]
async fn seed_words_are_shown_again_with_the_password() {
    let engine = TestEngine::start(Setup::default()).await;
    let mut operator = engine.operator();
    operator.must("wallet create main").await;
    let created = operator.outcome("seed create").await.secret.expect("words");
    let again = operator.outcome("seed words S001").await;
    assert_eq!(again.secret.as_deref(), Some(created.as_str()));
    assert!(matches!(again.prompts[..], [Prompt::Secret { .. }]), "{:?}", again.prompts);
    operator.passwords.push_back("another password".into());
    let refused = operator.outcome("seed words S001").await;
    assert_eq!(refused.reply.result.unwrap_err().code, Code::WrongPassword);
    assert_eq!(refused.secret, None);
    assert_eq!(operator.run_refused("seed words S002").await.code, Code::NothingFound);
    operator.must("wallet lock").await;
    assert_eq!(operator.run_refused("seed words S001").await.code, Code::WalletLocked);
    // Without a running engine, the command opens the wallet itself.
    drop(operator);
    let alone = engine.restart(Setup { mode: Mode::Maintenance, ..Setup::default() }).await;
    let mut operator = alone.operator();
    let again = alone.while_time_passes(operator.outcome("seed words S001")).await;
    assert_eq!(again.secret.as_deref(), Some(created.as_str()));
}
