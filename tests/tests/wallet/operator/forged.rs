//! Forged settings in the journal. Only the wallet's key can detect them, so no setting from the journal takes effect
//! before the wallet has verified it.

use std::sync::Arc;

use bursar_control::answers::{Answer, ServerAnswer};
use bursar_core::codes::Code;
use bursar_core::settings::Setting;
use bursar_domain::Event;
use bursar_engine::journal::{Batch, Head, MemoryStore, Store};
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::{Expect, Operator};
use sha2::{Digest, Sha256};

const ANY_PORT: &str = "[server]\nlisten = \"127.0.0.1:0\"\n";

fn append(store: &MemoryStore, event: &Event) {
    let mut store = store.clone();
    let head = store.head().unwrap();
    let seq = head.seq + 1;
    let mut bytes = vec![7];
    bytes.extend_from_slice(&seq.to_be_bytes());
    bytes.extend_from_slice(&1_767_225_600_000_i64.to_be_bytes());
    bytes.extend_from_slice(&head.hash);
    bytes.extend_from_slice(&postcard::to_allocvec(event).unwrap());
    let hash = Sha256::digest(&bytes).into();
    let head = Head { seq, hash };
    store.commit(Batch { entries: vec![(seq, bytes)], head, ..Batch::default() }).unwrap();
}

async fn server(operator: &mut Operator) -> ServerAnswer {
    match operator.must("server status").await {
        Answer::Server(server) => server,
        other => panic!("{other:?}"),
    }
}

async fn engine_with_store() -> (TestEngine, MemoryStore) {
    let store = MemoryStore::default();
    let setup =
        Setup { store: Some(Box::new(store.clone())), settings: ANY_PORT, ..Setup::default() };
    let engine = TestEngine::start(setup).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 0.5").await;
    (engine, store)
}

/// Restarts the engine on the same folder and journal, with its agent server running.
async fn restart(engine: TestEngine, store: &MemoryStore) -> TestEngine {
    let setup = Setup {
        store: Some(Box::new(store.clone())),
        settings: ANY_PORT,
        clock: Arc::clone(&engine.clock),
        ..Setup::default()
    };
    let engine = engine.restart(setup).await;
    engine.engine.start_server().await.unwrap();
    engine
}

#[tokio::test]
async fn a_forged_setting_opens_nothing_before_or_after_unlock() {
    let (engine, store) = engine_with_store().await;
    // A locked engine writes no more entries by itself.
    engine.operator().must("wallet lock").await;
    append(
        &store,
        &Event::SettingChanged { from: Setting::AllowLan(false), to: Setting::AllowLan(true) },
    );
    let engine = restart(engine, &store).await;
    let mut operator = engine.operator();
    assert!(!server(&mut operator).await.open_to_network, "nobody has judged it");
    let opened = operator.outcome("wallet open").await.reply;
    let codes: Vec<&str> = opened.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert!(codes.contains(&Code::JournalUntrusted.text()), "{codes:?}");
    assert!(!server(&mut operator).await.open_to_network, "it was judged, and does not fit");
    assert_eq!(
        operator.run_refused("server start --allow-lan").await.code,
        Code::JournalUntrusted,
        "and nothing is opened on top of it"
    );
    // Accepting the journal reports which settings take effect.
    let accepted = operator.outcome("audit accept").await.reply;
    let loosened: Vec<&str> = accepted
        .warnings
        .iter()
        .filter(|warning| warning.code == "LOOSENED")
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(loosened.len(), 1, "{:?}", accepted.warnings);
    assert!(loosened[0].contains("open to the network"), "{loosened:?}");
}

#[tokio::test]
async fn journal_settings_take_effect_once_the_wallet_is_open() {
    let (engine, store) = engine_with_store().await;
    engine.operator().must("config set server.allow_lan true").await;
    let engine = restart(engine, &store).await;
    let mut operator = engine.operator();
    assert!(!server(&mut operator).await.open_to_network);
    operator.must("wallet open").await;
    assert!(server(&mut operator).await.open_to_network);
    operator.must("wallet lock").await;
    assert!(server(&mut operator).await.open_to_network, "it was judged in this life");
    engine.engine.stop().await;
}
