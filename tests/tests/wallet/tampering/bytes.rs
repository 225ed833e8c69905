//! Flipped bytes in entries: the engine refuses to start, and the audit of a running engine names the entry.

use std::sync::Arc;

use bursar_core::codes::Code;
use bursar_engine::core::Core;
use bursar_engine::journal::{MemoryStore, Store};
use bursar_engine::rules::Rules;
use bursar_tests::engine::{Setup, TestEngine, test_edition};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;

/// Returns an engine that has paid, and its journal in memory.
async fn engine_with_payments() -> (TestEngine, MemoryStore) {
    let memory = MemoryStore::default();
    let store: Box<dyn Store> = Box::new(memory.clone());
    let engine = TestEngine::start(Setup { store: Some(store), ..Setup::default() }).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 0.5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    for n in 0..2 {
        let body = agent.ask(engine.now_s(), &offer(12_000, n), None);
        assert_eq!(engine.post("/sign", &body).await.0, 200);
    }
    // A freeze commits at once, so no record is still pending.
    engine.operator().must("freeze").await;
    (engine, memory)
}

fn length(memory: &MemoryStore, seq: u64) -> usize {
    let mut length = 0;
    memory.tamper(seq, |bytes| length = bytes.len());
    length
}

#[tokio::test]
async fn a_flipped_byte_of_any_entry_refuses_the_start_and_names_the_entry() {
    let (engine, memory) = engine_with_payments().await;
    engine.engine.stop().await;
    let last = memory.head().unwrap().seq;
    let start =
        || Core::open(Box::new(memory.clone()), &test_edition(), Arc::default(), Rules::default());
    for seq in 1..=last {
        for at in 0..length(&memory, seq) {
            for bit in [0x01, 0x80] {
                memory.tamper(seq, |bytes| bytes[at] ^= bit);
                let refused = start().expect_err("a changed byte").to_string();
                let named = [seq, seq + 1].map(|seq| format!("damaged at entry {seq}:"));
                let names = named.iter().any(|name| refused.contains(name));
                assert!(names, "byte {at} of entry {seq} of {last}: {refused}");
                memory.tamper(seq, |bytes| bytes[at] ^= bit);
            }
        }
    }
    assert!(start().is_ok());
}

/// Flips bytes of an entry under a running engine and expects `audit verify` to name it.
async fn assert_audit_names_entry(engine: &TestEngine, memory: &MemoryStore, seq: u64) {
    let mut operator = engine.operator();
    for at in (0..length(memory, seq)).step_by(7) {
        memory.tamper(seq, |bytes| bytes[at] ^= 0x01);
        let fault = operator.run_refused("audit verify").await;
        assert_eq!(fault.code, Code::JournalDamaged, "byte {at} of entry {seq}: {fault}");
        let named = [seq, seq + 1].map(|seq| format!("damaged at entry {seq}:"));
        let names = named.iter().any(|name| fault.message.contains(name));
        assert!(names, "byte {at} of entry {seq}: {fault}");
        memory.tamper(seq, |bytes| bytes[at] ^= 0x01);
    }
    operator.must("audit verify").await;
}

#[tokio::test]
async fn a_flipped_byte_under_a_running_engine_is_named_by_the_audit() {
    let (engine, memory) = engine_with_payments().await;
    for seq in 1..memory.head().unwrap().seq {
        assert_audit_names_entry(&engine, &memory, seq).await;
    }
}

#[tokio::test]
async fn a_flipped_byte_of_the_last_entry_is_named_by_the_audit_too() {
    let (engine, memory) = engine_with_payments().await;
    assert_audit_names_entry(&engine, &memory, memory.head().unwrap().seq).await;
}
