//! A failed commit and a full disk: the engine stops deciding, and every earlier answer still holds.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::limits::FREE_DISK_BYTES_MIN;
use bursar_devnet::report_skip;
use bursar_domain::Status;
use bursar_engine::journal::{Checkpoints, RedbStore, Store, verify_chain};
use bursar_engine::ports::NoFailpoints;
use bursar_tests::agent::Agent;
use bursar_tests::caller::{AgentClient, HttpResponse, json_or_null};
use bursar_tests::mount::Mount;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};

use crate::failures::stage::{UsedFolder, ask, set_up_wallet, text};

/// The answers to requests up to a failed commit and one round after it.
#[derive(Debug, Default)]
struct Answers {
    paid: Vec<(Value, HttpResponse)>,
    /// Recorded but not signed: a commit failed before the signature was made.
    unsigned: Vec<Value>,
    failed: Vec<Value>,
}

/// Sends rounds of sixteen concurrent requests until one round after a failed commit.
async fn pay_until_commit_fails(caller: &AgentClient, agent: &Agent) -> Answers {
    let mut all = Answers::default();
    for round in 1..20u64 {
        let failing = !all.failed.is_empty();
        let asks = (0..16).map(|n| {
            let (caller, body) = (caller.clone(), ask(agent, round * 100 + n));
            tokio::spawn(
                async move { (caller.post("/sign", &body).await.expect("answered"), body) },
            )
        });
        for asked in asks.collect::<Vec<_>>() {
            let (answered, body) = asked.await.expect("no panic");
            let answer = json_or_null(&answered.1);
            match answered.0 {
                200 => {
                    assert!(!failing, "decided after a failed commit: {answer}");
                    all.paid.push((body, answered));
                }
                202 if answer["status"] == "executing" => {
                    assert!(!failing, "decided after a failed commit: {answer}");
                    all.unsigned.push(body);
                }
                503 => {
                    assert_eq!(answer["code"], "JOURNAL_FAILED", "{answer}");
                    assert!(answer["header_value"].is_null() && answer["transaction_id"].is_null());
                    all.failed.push(body);
                }
                _other => panic!("{answer}"),
            }
        }
        if failing {
            return all;
        }
    }
    panic!("no commit failed");
}

/// Returns the number and the sum, in micro-dollars, of payments in the journal file.
fn payments_in_journal(file: &Path) -> (usize, u64) {
    let store = RedbStore::open(file, Arc::new(NoFailpoints)).expect("the journal opens");
    verify_chain(&*store.reader(), None, |_entry| ()).expect("the chain is whole");
    let records = store.reader().latest(1_000_000).expect("records");
    let authorized = records.iter().filter(|r| matches!(r.status, Status::Authorized { .. }));
    authorized.fold((0, 0), |(count, sum), r| (count + 1, sum + r.ask.usd().0))
}

/// Returns the answer to the agent's `/status` request, which must succeed.
async fn agent_status(caller: &AgentClient, agent: &Agent) -> Value {
    let body = agent.read(jiff::Timestamp::now().as_second());
    let (status, bytes) = caller.post("/status", &body).await.unwrap();
    assert_eq!(status, 200);
    json_or_null(&bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_commit_nothing_is_decided_and_a_restart_knows_every_answer() {
    // The first commit after a start seals the journal at unlock and moves no rows to the history yet.
    for (point, n) in [
        ("journal.before_commit", 3),
        ("journal.before_sync", 3),
        ("journal.after_commit", 3),
        ("journal.history_created", 1),
        ("journal.history_renamed", 1),
        ("journal.before_carry", 1),
        ("journal.before_carry_sync", 2),
        ("journal.after_carry", 1),
    ] {
        let used = UsedFolder::new().await;
        let start = StartOptions {
            fault: Some(format!("fail:{point}:{n}")),
            has_password: true,
            checkpoints: Some(Checkpoints { after_bytes: 60_000, in_background: true }),
            ..StartOptions::default()
        };
        let mut engine = EngineProcess::start(&used.folder(), &start);
        let caller = AgentClient::for_url(&engine.url);
        let Answers { paid, unsigned, failed } = pay_until_commit_fails(&caller, &used.agent).await;

        // Reads still work.
        assert_eq!(caller.get("/health").await.unwrap().0, 200);
        for (_body, answered) in used.paid.iter().chain(&paid) {
            let id = json_or_null(&answered.1)["transaction_id"].as_str().unwrap().to_owned();
            let polled = caller.get(&format!("/sign/status/{id}")).await.unwrap();
            // The failed commit may have contained the records of the last signatures.
            let pending = polled.0 == 202 && json_or_null(&polled.1)["request_id"] == id.as_str();
            assert!(polled == *answered || pending, "{point}: {polled:?}");
        }
        agent_status(&caller, &used.agent).await;
        let mut operator = engine.operator().await;
        operator.must("status").await;
        operator.must("requests --all").await;
        for line in ["freeze", "policy edit p --day 1", "agent suspend bot"] {
            let fault = operator.run_refused(line).await;
            assert_eq!(fault.code, Code::JournalFailed, "{line}");
            assert!(fault.message.contains("restart the engine"), "{fault}");
        }
        assert_eq!(engine.terminate(), Some(0));

        let (count, sum) = payments_in_journal(&used.file("journal.redb"));
        let answered = used.paid.len() + paid.len() + unsigned.len();
        if ["journal.before_commit", "journal.before_sync"].contains(&point) {
            assert_eq!(count, answered, "{point}: what was answered and nothing else");
        } else {
            // The write reached the disk although it reported failure, so more may be recorded than was answered. A
            // commit also reports the failure of a move of rows that it had to wait for.
            assert!(count >= answered, "{point}: {count} of {answered}");
        }
        let start = StartOptions { has_password: true, ..StartOptions::default() };
        let mut engine = EngineProcess::start(&used.folder(), &start);
        let caller = AgentClient::for_url(&engine.url);
        let status = agent_status(&caller, &used.agent).await;
        assert_eq!(status["agent"]["spent_today_micro"], sum, "{point}");
        for (body, answered) in used.paid.iter().chain(&paid) {
            assert_eq!(&caller.post("/sign", body).await.unwrap(), answered, "{point}");
        }
        let mut ids = BTreeSet::new();
        for body in unsigned.iter().chain(&failed) {
            let (status, bytes) = caller.post("/sign", body).await.unwrap();
            let answer = json_or_null(&bytes);
            assert_eq!((status, &answer["status"]), (200, &json!("success")), "{point}: {answer}");
            ids.insert(answer["transaction_id"].as_str().unwrap().to_owned());
        }
        assert_eq!(ids.len(), unsigned.len() + failed.len());
        assert_eq!(engine.terminate(), Some(0));
        let (count, _sum) = payments_in_journal(&used.file("journal.redb"));
        assert_eq!(count, answered + failed.len(), "{point}: each ask once");
    }
}

#[tokio::test]
async fn a_failed_commit_names_the_journal_to_the_operator() {
    let used = UsedFolder::new().await;
    // Opening the wallet takes two commits: the seal, and the entry that records the opening.
    let fault = Some("fail:journal.before_commit:3".to_owned());
    let start = StartOptions { fault, has_password: true, ..StartOptions::default() };
    let engine = EngineProcess::start(&used.folder(), &start);
    let fault = engine.operator().await.run_refused("freeze").await;
    assert_eq!(fault.code, Code::JournalFailed);
    assert!(fault.message.contains(&text(&used.file("journal.redb"))), "{fault}");
    let Answer::Status(status) = engine.operator().await.must("status").await else { panic!() };
    assert!(status.failed.is_some(), "{status:?}");
}

/// Writes until `enough` returns true or the disk is full.
pub(crate) fn fill_disk(file: &mut File, enough: impl Fn() -> bool) {
    let block = vec![0x5a; 4096];
    while !enough() && file.write_all(&block).is_ok() {}
}

async fn policy_names(operator: &mut Operator) -> BTreeSet<String> {
    let Answer::Policies { policies } = operator.must("policy list").await else { panic!() };
    policies.into_iter().map(|policy| policy.name).collect()
}

#[tokio::test]
async fn a_disk_that_fills_up_is_reported_early_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let _disk = match Mount::in_memory(home.path(), 120) {
        Ok(mount) => mount,
        Err(why) => {
            report_skip(&format!("no small disk here, only root can mount one ({why})"));
            return;
        }
    };
    let folder = home.path().join("data");
    let carry = Some(Checkpoints { after_bytes: 20_000, in_background: true });
    let elsewhere = tempfile::tempdir().unwrap();
    let log = elsewhere.path().join("log");
    let start =
        StartOptions { checkpoints: carry, log: Some(log.clone()), ..StartOptions::default() };
    let mut engine = EngineProcess::start(&folder, &start);
    let mut operator = engine.operator().await;
    let agent = set_up_wallet(&mut operator).await;
    let caller = AgentClient::for_url(&engine.url);
    let before = (ask(&agent, 1), ask(&agent, 2));
    let paid = caller.post("/sign", &before.0).await.unwrap();
    assert_eq!(paid.0, 200);

    // Below 64 MiB free, agents are refused; the operator's commands still work.
    let filler = home.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    let free = || rustix::fs::statvfs(home.path()).map(|s| s.f_bavail * s.f_frsize).unwrap();
    fill_disk(&mut file, || free() < FREE_DISK_BYTES_MIN);
    let (status, bytes) = caller.post("/sign", &before.1).await.unwrap();
    let answer = json_or_null(&bytes);
    assert_eq!((status, &answer["code"]), (503, &json!("DISK_FULL")), "{answer}");
    let Answer::Status(status) = operator.must("status").await else { panic!() };
    assert!(status.disk_full, "{status:?}");
    let logged = |what: &str| std::fs::read_to_string(&log).unwrap().matches(what).count();
    assert_eq!(logged("payments are refused until there is more room"), 1);
    file.set_len(0).unwrap();
    let Answer::Status(status) = operator.must("status").await else { panic!() };
    assert!(!status.disk_full, "{status:?}");
    assert_eq!(logged("the disk has room again"), 1);
    fill_disk(&mut file, || free() < FREE_DISK_BYTES_MIN);
    operator.must("policy create q --day 1").await;
    let Answer::Requests { requests } = operator.must("requests --all").await else { panic!() };
    assert_eq!(requests.len(), 1, "the refused ask left no trace");

    // On a full disk, commands name the file that could not be written and the remedy.
    fill_disk(&mut file, || false);
    let fault = operator.run_refused("agent register late --auth hmac").await;
    assert_eq!(fault.code, Code::DiskFull, "{fault}");
    for part in ["main.wallet", "No space left on device", "neither full nor read-only"] {
        assert!(fault.message.contains(part), "{fault}");
    }
    let mut created = vec!["p".to_owned(), "q".to_owned()];
    let failure = loop {
        let name = format!("extra{}", created.len());
        let done = operator.outcome(&format!("policy create {name} --day 1")).await.reply.result;
        match done {
            Ok(_created) => created.push(name),
            Err(fault) => break fault,
        }
        assert!(created.len() < 20_000, "the journal grows on a full disk");
    };
    assert_eq!(failure.code, Code::JournalFailed, "{failure}");
    assert!(failure.message.contains("has free space, then restart the engine"), "{failure}");
    assert_eq!(caller.get("/health").await.unwrap().0, 200);
    let created: BTreeSet<_> = created.into_iter().collect();
    assert!(policy_names(&mut operator).await.is_superset(&created));
    assert_eq!(engine.terminate(), Some(0));

    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let start = StartOptions { has_password: true, ..StartOptions::default() };
    let mut engine = EngineProcess::start(&folder, &start);
    let mut operator = engine.operator().await;
    let Answer::Audit(audit) = operator.must("audit verify").await else { panic!() };
    assert!(audit.sealed && audit.untrusted.is_none(), "{audit:?}");
    let names = policy_names(&mut operator).await;
    assert_eq!(names, created, "what was answered and nothing else");
    let caller = AgentClient::for_url(&engine.url);
    assert_eq!(caller.post("/sign", &before.0).await.unwrap(), paid);
    assert_eq!(caller.post("/sign", &before.1).await.unwrap().0, 200);
    operator.must("agent register late --auth hmac").await;
    assert_eq!(engine.terminate(), Some(0));
}

#[tokio::test]
async fn a_backup_without_room_is_refused_and_takes_nothing_of_the_reserve() {
    let home = tempfile::tempdir().unwrap();
    let _disk = match Mount::in_memory(home.path(), 200) {
        Ok(mount) => mount,
        Err(why) => {
            report_skip(&format!("no small disk here, only root can mount one ({why})"));
            return;
        }
    };
    let folder = home.path().join("data");
    let engine = EngineProcess::start(&folder, &StartOptions::default());
    let mut operator = engine.operator().await;
    let agent = set_up_wallet(&mut operator).await;
    let backup = format!("wallet backup {}", home.path().join("one.backup").display());
    let mut file = File::create(home.path().join("filler")).unwrap();
    let free = || rustix::fs::statvfs(home.path()).map(|s| s.f_bavail * s.f_frsize).unwrap();

    // Agents may still pay, but a backup of the journal would use up the space that payments and commands need.
    fill_disk(&mut file, || free() < 2 * FREE_DISK_BYTES_MIN);
    let left = free();
    let fault = operator.run_refused(&backup).await;
    assert_eq!(fault.code, Code::DiskFull, "{fault}");
    assert!(fault.message.contains("MiB are free: free some space"), "{fault}");
    assert_eq!(free(), left);
    assert!(!folder.join(".backup").exists());
    let caller = AgentClient::for_url(&engine.url);
    assert_eq!(caller.post("/sign", &ask(&agent, 1)).await.unwrap().0, 200);
    file.set_len(0).unwrap();
    operator.must(&backup).await;
    assert!(!folder.join(".backup").exists());
}
