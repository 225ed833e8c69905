//! `audit verify` during payments, and after an attacker removes entries.

use std::path::Path;
use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_engine::core::Core;
use bursar_engine::journal::{MemoryStore, Store};
use bursar_engine::rules::Rules;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, json_or_null};
use bursar_tests::engine::{Setup, TestEngine, test_edition};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::Value;

use crate::threats::stage::{add_agent, engine_with, into_arc, set_up_wallet, unlimited_in_memory};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t_45_an_audit_while_agents_pay_reports_no_damage() {
    let policy = "--day 1000 --txn 1 --auto 1";
    let (engine, agent) = engine_with(unlimited_in_memory(), policy, "bearer").await;
    let engine = into_arc(engine);
    let payers: Vec<_> = (0..8u64)
        .map(|client| {
            let (engine, agent) = (Arc::clone(&engine), agent.clone());
            tokio::spawn(async move {
                for n in 0..40 {
                    let body = agent.ask(engine.now_s(), &offer(1_000, client * 1_000 + n), None);
                    assert_eq!(engine.post("/sign", &body).await.0, 200);
                }
            })
        })
        .collect();
    let mut operator = engine.operator();
    let (mut audits, mut grown, mut last) = (0, 0, 0);
    while payers.iter().any(|payer| !payer.is_finished()) || audits < 12 {
        let Answer::Audit(audit) = operator.must("audit verify").await else { panic!() };
        assert!(audit.untrusted.is_none(), "{audit:?}");
        (audits, grown) = (audits + 1, grown + usize::from(audit.entries > last));
        last = audit.entries;
    }
    for payer in payers {
        payer.await.unwrap();
    }
    assert!(grown > 1, "the journal grew under {grown} of {audits} audits");
}

/// Returns an engine that has paid twice, with its agent and journal. The last store is a copy of the journal before
/// the second payment.
async fn paid_with_older_copy() -> (TestEngine, Agent, MemoryStore, MemoryStore) {
    let store = MemoryStore::default();
    let setup = Setup { store: Some(Box::new(store.clone())), ..unlimited_in_memory() };
    let (engine, agent) = engine_with(setup, "--day 1000 --txn 1 --auto 1", "bearer").await;
    let mut older = store.deep_copy();
    for n in 0..2 {
        // These commands commit at once and flush pending entries, so the copy lacks only the next payment.
        for line in ["freeze", "thaw"] {
            engine.operator().must(line).await;
        }
        older = store.deep_copy();
        let body = agent.ask(engine.now_s(), &offer(1_000, n), None);
        assert_eq!(engine.post("/sign", &body).await.0, 200);
    }
    (engine, agent, store, older)
}

/// Removes the newest entry, or replaces the whole store with an older copy.
#[tokio::test]
async fn t_45_a_last_entry_removed_under_a_running_engine_is_reported() {
    for (what, put_back) in [("the entry is gone", false), ("an older file is back", true)] {
        let (engine, agent, store, older) = paid_with_older_copy().await;
        let mut operator = engine.operator();
        operator.must("audit verify").await;
        let last = store.head().unwrap().seq;
        match put_back {
            true => store.replace_contents(&older),
            false => store.remove(last),
        }
        let fault = operator.run_refused("audit verify").await;
        assert_eq!(fault.code, Code::JournalDamaged, "{what}: {fault}");
        assert!(fault.message.contains("damaged at entry"), "{what}: {fault}");

        // The engine keeps its state in memory: the amount stays spent, and the next payment cannot hide the damage.
        let body = agent.ask(engine.now_s(), &offer(1_000, 7), None);
        let (status, answer) = engine.post("/sign", &body).await;
        assert!(status == 200 || status == 500, "{what}: {status} {answer}");
        let (_, reply) = engine.post("/mandate", &agent.read(engine.now_s())).await;
        let paid = if status == 200 { 3_000 } else { 2_000 };
        assert_eq!(reply["spent_today_micro"], paid, "{what}: {reply}");
        assert_eq!(operator.run_refused("audit verify").await.code, Code::JournalDamaged, "{what}");
        engine.engine.stop().await;
        let again =
            Core::open(Box::new(store.clone()), &test_edition(), Arc::default(), Rules::default());
        let refused = again.expect_err("an entry is missing").to_string();
        assert!(refused.contains("damaged at entry"), "{what}: {refused}");
    }
}

/// Uses real files: the engine holds its newest entries in memory and keeps writing into a file that was changed.
#[tokio::test]
async fn t_45_a_file_changed_under_a_running_engine_is_refused_at_the_next_start() {
    for what in ["older", "cut", "empty"] {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        let mut engine = EngineProcess::start(&folder, &StartOptions::default());
        let mut operator = engine.operator().await;
        set_up_wallet(&mut operator, "--day 1000 --txn 1 --auto 1").await;
        let agent = add_agent(&mut operator, "bot", "bearer").await;
        let journal = folder.join("journal.redb");
        let older = std::fs::read(&journal).unwrap();
        let mut paid = vec![pay(&engine, &agent, 1).await];
        overwrite(&journal, what, &older);
        for n in 2..5 {
            paid.push(pay(&engine, &agent, n).await);
        }
        engine.kill();
        match EngineProcess::try_start(
            &folder,
            &StartOptions { has_password: true, ..StartOptions::default() },
        ) {
            Err(why) => {
                assert!(
                    why.contains("exit status: 13") && why.contains("JOURNAL_DAMAGED"),
                    "{what}: {why}"
                );
            }
            // The engine's later writes repaired the file: no entry is missing, and no payment is made twice.
            Ok(engine) => {
                assert_eq!(what, "cut");
                engine.operator().await.must("audit verify").await;
                for (n, before) in (1..).zip(&paid) {
                    assert_eq!(pay(&engine, &agent, n).await, *before, "{what}");
                }
            }
        }
    }
}

/// Pays successfully, because the engine does not yet know that its file was changed.
async fn pay(engine: &EngineProcess, agent: &Agent, n: u64) -> Value {
    let body = agent.ask(engine.now_s(), &offer(1_000, n), None);
    let (status, answer) = AgentClient::for_url(&engine.url).post("/sign", &body).await.unwrap();
    assert_eq!(status, 200);
    json_or_null(&answer)
}

/// Overwrites the file in place, because the engine has it open.
fn overwrite(journal: &Path, what: &str, older: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(journal).unwrap();
    match what {
        "older" => {
            std::os::unix::fs::FileExt::write_all_at(&file, older, 0).unwrap();
            file.set_len(older.len() as u64).unwrap();
        }
        "cut" => file.set_len(file.metadata().unwrap().len() / 2).unwrap(),
        _empty => file.set_len(0).unwrap(),
    }
}
