//! An attacker who can write the data folder but has no key: nothing forged is signed, and nothing in the wallet is
//! lost.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::U256;
use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_core::money::{Atoms, Usd};
use bursar_domain::assets::Price;
use bursar_domain::event::{Event, RequestDraft};
use bursar_domain::identity::Identity;
use bursar_domain::{LaneAsk, PaymentAsk, State};
use bursar_engine::journal::{Batch, Head, MemoryStore, Seal, Snapshot, Store};
use bursar_tests::doubles::SlowSigner;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, PAY_TO, offer};
use bursar_tests::operator::Expect;
use bursar_x402::Echo;
use bursar_x402::authorization::Authorization;
use serde_json::json;
use sha2::{Digest, Sha256};

const POLICY: &str = "--day 10 --txn 10 --auto 0.5";

/// Appends an event with a valid hash chain, which needs no secret.
fn append_forged(store: &MemoryStore, event: &Event) {
    let mut store = store.clone();
    let head = store.head().unwrap();
    let seq = head.seq + 1;
    let mut bytes = vec![7];
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(&1_767_225_600_000i64.to_be_bytes());
    bytes.extend_from_slice(&head.hash);
    bytes.extend_from_slice(&postcard::to_allocvec(event).unwrap());
    let hash = Sha256::digest(&bytes).into();
    let batch = Batch { entries: vec![(seq, bytes)], head: Head { seq, hash }, ..Batch::default() };
    store.commit(batch).unwrap();
}

/// Returns an authorization of one dollar to the forger.
fn forged_authorization(state: &State) -> (RequestId, Event) {
    let agent = state.agents.values().next().unwrap();
    let paying = state.wallet.as_ref().unwrap().addresses.values().next().unwrap();
    let id = RequestId::from_bytes([0x42; 16]);
    let coin = bursar_core::networks::by_chain(BASE).unwrap().stablecoin;
    let asked = RequestDraft {
        id,
        agent: agent.id.clone(),
        label: paying.label.clone(),
        from: paying.address,
        identity: Identity::Bearer { digest: [1; 32], key: None },
        ask: LaneAsk::Payment(PaymentAsk {
            chain: BASE,
            asset: coin.address,
            amount: Atoms(U256::from(1_000_000)),
            usd: Usd(1_000_000),
            payee: PAY_TO.parse().unwrap(),
            valid_seconds: 3600,
            request_url: None,
            resource_url: None,
            other_urls: Vec::new(),
            domain_contradicted: false,
            padding: 0,
            price: Price::Reference,
            echo: Echo::none(),
        }),
    };
    let payment = asked.ask.payment().expect("a payment");
    let terms = Authorization {
        from: asked.from,
        to: payment.payee,
        value: payment.amount.0,
        valid_after: 0,
        valid_before: u64::from(u32::MAX),
        nonce: [7; 32].into(),
    };
    (id, Event::PaymentAuthorized { draft: Box::new(asked), terms })
}

#[tokio::test]
async fn a_forged_authorization_is_never_signed() {
    let store = MemoryStore::default();
    let engine =
        TestEngine::start(Setup { store: Some(Box::new(store.clone())), ..Setup::default() }).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "bearer").await;
    let (id, authorization) = forged_authorization(&engine.engine.core().view().state);
    let (signer, mut sign_requests) = SlowSigner::person();
    // A locked engine writes no more entries by itself.
    engine.operator().must("wallet lock").await;
    append_forged(&store, &authorization);
    let setup = Setup {
        store: Some(Box::new(store.clone())),
        signer: Some(signer),
        clock: Arc::clone(&engine.clock),
        ..Setup::default()
    };
    let engine = engine.restart(setup).await;
    let mut operator = engine.operator();
    let opened = operator.outcome("wallet open").await.reply;
    assert!(
        opened.warnings.iter().any(|warning| warning.code == "JOURNAL_UNTRUSTED"),
        "{opened:?}"
    );
    assert!(sign_requests.try_recv().is_err(), "a forged authorization was given to the signer");

    // Until `audit accept`, every payment needs approval, and the wallet cannot be changed.
    let body = agent.ask(engine.now_s(), &offer(1_000, 1), None);
    let (status, answer) = engine.post("/sign", &body).await;
    assert_eq!((status, &answer["status"]), (202, &json!("pending")), "{answer}");
    let Answer::Requests { requests } = operator.must("requests").await else { panic!() };
    let held = requests[0].card.as_ref().unwrap().hold;
    assert_eq!(held, bursar_core::card::HoldReason::JournalUntrusted);
    for line in ["seed create", "agent register other", "wallet passwd"] {
        assert_eq!(operator.run_refused(line).await.code, Code::JournalUntrusted, "{line}");
    }

    operator.must("audit accept").await;
    operator.must("wallet lock").await;
    let opened = operator.outcome("wallet open").await.reply;
    assert!(opened.warnings.is_empty(), "{opened:?}");
    assert!(
        sign_requests.try_recv().is_err(),
        "accepting the journal signed a forged authorization"
    );
    let (_, polled) = engine.get(&format!("/sign/status/{id}")).await;
    assert_eq!(polled.get("header_value"), None, "{polled}");
    // The agent's own requests are signed again; the forged dollar counts as spent.
    let body = agent.ask(engine.now_s(), &offer(1_000, 2), None);
    assert_eq!(engine.post("/sign", &body).await.1["status"], "executing");
    // A slip for the forged entry would have arrived before this first one.
    assert_ne!(sign_requests.recv().await.unwrap().slip.request(), Some(id));
    let Answer::Agent(shown) = operator.must("agent show bot").await else { panic!() };
    assert_eq!(shown.spent_today, "1.001");
}

#[tokio::test]
async fn a_forged_snapshot_changes_no_policy() {
    for break_seal in [false, true] {
        let store = MemoryStore::default();
        let setup =
            |clock| Setup { store: Some(Box::new(store.clone())), clock, ..Setup::default() };
        let engine = TestEngine::start(setup(Setup::default().clock)).await;
        engine.set_up_wallet(POLICY).await;
        let agent = engine.add_agent("bot", "bearer").await;
        let clock = Arc::clone(&engine.clock);
        engine.operator().must("wallet lock").await;

        let mut state = engine.engine.core().view().state.clone();
        let key = state.policies.keys().next().unwrap().clone();
        let record = Arc::make_mut(&mut state.policies).get_mut(&key).unwrap();
        let policy = &mut Arc::make_mut(record).policy.payments;
        (policy.daily, policy.per_request, policy.auto_below) =
            (Usd::dollars(9_000), Usd::dollars(9_000), Usd::dollars(9_000));
        let mut disk = store.clone();
        let seal = disk.seal().unwrap().unwrap();
        let forged = Batch {
            head: disk.head().unwrap(),
            seal: break_seal.then_some(Seal { tag: [0; 32], ..seal }),
            snapshot: Some(Snapshot {
                head: disk.head().unwrap(),
                state: postcard::to_allocvec(&state).unwrap(),
                tag: None,
            }),
            ..Batch::default()
        };
        let engine = {
            // Stopping writes nothing: the wallet is locked and nothing is pending.
            disk.commit(forged).unwrap();
            engine.restart(setup(clock)).await
        };
        let mut operator = engine.operator();
        let opened = operator.outcome("wallet open").await.reply;
        assert!(!opened.warnings.is_empty(), "{opened:?}");
        operator.must("audit accept").await;
        let Answer::Policy(policy) = operator.must("policy show p").await else { panic!() };
        assert_eq!(policy.payments.auto_below, "0.50");
        let body = agent.ask(engine.now_s(), &offer(2_000_000, 1), None);
        assert_eq!(engine.post("/sign", &body).await.0, 202);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
}

#[tokio::test]
async fn an_older_journal_loses_no_seed() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet(POLICY).await;
    let (journal, old, new) =
        (engine.folder.join("journal.redb"), engine.folder.join("old"), engine.folder.join("new"));
    let clock = || Setup { clock: Arc::new(clock_at_start()), ..Setup::default() };
    let folder = engine.folder.clone();
    let home = stop(engine).await;
    copy(&journal, &old);
    let engine = TestEngine::open(folder.clone(), clock()).await;
    let mut operator = engine.operator();
    operator.must("wallet open").await;
    operator.must("seed create").await;
    operator.must("address create second 0 --seed S002").await;
    drop(operator);
    stop(engine).await;
    copy(&journal, &new);

    copy(&old, &journal);
    let engine = TestEngine::open(folder.clone(), clock()).await;
    let mut operator = engine.operator();
    let opened = operator.outcome("wallet open").await.reply;
    assert!(
        opened.warnings.iter().any(|warning| warning.code == "JOURNAL_UNTRUSTED"),
        "{opened:?}"
    );
    drop(operator);
    stop(engine).await;

    copy(&new, &journal);
    let engine = TestEngine::open(folder, clock()).await;
    let mut operator = engine.operator();
    let opened = operator.outcome("wallet open").await.reply;
    assert!(opened.result.is_ok() && opened.warnings.is_empty(), "{opened:?}");
    operator.must("address create third 1 --seed S002").await;
    drop(home);
}

fn clock_at_start() -> bursar_chain::clock::manual::ManualClock {
    let start = bursar_core::time::Utc::from_seconds(bursar_tests::engine::NEW_YEAR_S);
    bursar_chain::clock::manual::ManualClock::new(start)
}

/// Stops an engine; its folder exists as long as the returned value.
async fn stop(mut engine: TestEngine) -> Option<tempfile::TempDir> {
    let home = engine.keep_folder();
    drop(engine.http);
    engine.engine.stop().await;
    home
}

#[tokio::test]
async fn an_older_wallet_file_does_not_restore_a_replaced_secret() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "hmac").await;
    let file = engine.folder.join("wallets/main.wallet");
    let old = engine.folder.join("old");
    copy(&file, &old);
    let mut operator = engine.operator();
    let renewed = operator.outcome("agent instructions bot --regenerate").await;
    let new = bursar_tests::agent::Agent { token: renewed.secret.unwrap(), ..agent.clone() };
    let ask =
        |agent: &bursar_tests::agent::Agent, n| agent.ask(engine.now_s(), &offer(1_000, n), None);
    assert_eq!(engine.post("/sign", &ask(&agent, 1)).await.0, 401);
    assert_eq!(engine.post("/sign", &ask(&new, 2)).await.0, 200);

    operator.must("wallet lock").await;
    copy(&old, &file);
    let opened = operator.outcome("wallet open").await.reply;
    assert!(opened.warnings.iter().any(|warning| warning.message.contains("bot")), "{opened:?}");
    assert_eq!(engine.post("/sign", &ask(&agent, 3)).await.0, 401);
    let Answer::Agent(shown) = operator.must("agent show bot").await else { panic!() };
    assert!(shown.problem.is_some());
}

#[tokio::test]
async fn an_older_wallet_file_next_to_a_newer_journal_is_reported() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet(POLICY).await;
    let agent = engine.add_agent("bot", "bearer").await;
    let ask = |n| agent.ask(engine.now_s(), &offer(1_000, n), None);
    let file = engine.folder.join("wallets/main.wallet");
    let mut operator = engine.operator();
    let mut olds = Vec::new();
    for n in 0..3 {
        let old = engine.folder.join(format!("old-{n}"));
        copy(&file, &old);
        olds.push(old);
        operator.must("wallet lock").await;
        operator.must("wallet open").await;
        assert_eq!(engine.post("/sign", &ask(n)).await.0, 200);
    }
    operator.must("wallet lock").await;
    let newest = engine.folder.join("newest");
    copy(&file, &newest);
    for old in &olds {
        copy(old, &file);
        let opened = operator.outcome("wallet open").await.reply;
        let reported =
            |message: &str| opened.warnings.iter().any(|known| known.message.contains(message));
        assert!(reported("the wallet file is older than the journal"), "{opened:?}");
        operator.must("wallet lock").await;
    }
    copy(&newest, &file);
    let opened = operator.outcome("wallet open").await.reply;
    assert_eq!(opened.warnings, [], "the newest file fits");
    assert_eq!(engine.post("/sign", &ask(20)).await.0, 200);

    // After `audit accept`, the engine continues with the older file.
    operator.must("wallet lock").await;
    copy(&olds[2], &file);
    operator.must("wallet open").await;
    assert_eq!(engine.post("/sign", &ask(21)).await.0, 202, "it asks the operator");
    operator.must("audit accept").await;
    assert_eq!(engine.post("/sign", &ask(25)).await.0, 200);
    for n in 22..24 {
        operator.must("wallet lock").await;
        let opened = operator.outcome("wallet open").await.reply;
        assert_eq!(opened.warnings, []);
        assert_eq!(engine.post("/sign", &ask(n)).await.0, 200);
    }
}
