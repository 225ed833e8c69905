//! Failures between two states: during unlock, lock and wallet creation.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bursar_core::codes::Code;
use bursar_core::ids::RequestId;
use bursar_domain::Status;
use bursar_engine::journal::{RedbStore, Store, verify_chain};
use bursar_engine::ports::{Failpoints, NoFailpoints, Signer};
use bursar_tests::caller::{AgentClient, json_or_null};
use bursar_tests::doubles::SlowSigner;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{self, BASE, offer};
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::failures::stage::UsedFolder;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A disk that fails one commit when armed.
#[derive(Debug, Default)]
struct DiskFailingOnce {
    armed: AtomicBool,
}

impl Failpoints for DiskFailingOnce {
    fn hit(&self, point: &'static str) -> io::Result<()> {
        if point == "journal.before_commit" && self.armed.swap(false, Ordering::SeqCst) {
            return Err(io::Error::other("Input/output error"));
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_failed_seal_stops_decisions_like_any_failed_commit() {
    for line in ["wallet open", "wallet passwd"] {
        let faults = Arc::new(DiskFailingOnce::default());
        let setup = Setup { failpoints: Arc::clone(&faults) as _, ..Setup::default() };
        let home = tempfile::tempdir().unwrap();
        let engine = TestEngine::open(home.path().join("data"), setup).await;
        engine.set_up_wallet("--day 10 --txn 10 --auto 0.5").await;
        let agent = engine.add_agent("bot", "hmac").await;
        let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
        let (status, answer) = engine.post("/sign", &body).await;
        assert_eq!(status, 200, "{answer}");
        // The signature's record is pending until the next commit; dropping that commit would leave a gap.
        let id: RequestId = answer["transaction_id"].as_str().unwrap().parse().unwrap();
        timeout(TIMEOUT, wait_until_recorded(&engine, id))
            .await
            .expect("the signature is recorded");
        let mut operator = engine.operator();
        if line == "wallet open" {
            operator.must("wallet lock").await;
        }
        faults.armed.store(true, Ordering::SeqCst);
        let sealed = operator.outcome(line).await.reply.result;
        let after = operator.outcome("freeze").await.reply.result;
        drop(operator);
        assert!(!faults.armed.load(Ordering::SeqCst), "no commit was tried");
        let journal = engine.folder.join("journal.redb");
        drop(engine.http);
        engine.engine.stop().await;
        let store = RedbStore::open(&journal, Arc::new(NoFailpoints)).unwrap();
        let chain = verify_chain(&*store.reader(), None, |_entry| ());
        assert!(chain.is_ok(), "{line}: the chain has a gap: {chain:?}");
        assert!(sealed.is_err(), "{line}: the seal was not written");
        let fault = after.expect_err("nothing is decided after a failed commit");
        assert_eq!(fault.code, Code::JournalFailed, "{line}");
    }
}

#[tokio::test]
async fn a_returned_header_can_be_polled_after_a_failed_commit() {
    let faults = Arc::new(DiskFailingOnce::default());
    let (signer, mut sign_requests) = SlowSigner::machine();
    let setup =
        Setup { failpoints: Arc::clone(&faults) as _, signer: Some(signer), ..Setup::default() };
    let home = tempfile::tempdir().unwrap();
    let engine = Arc::new(TestEngine::open(home.path().join("data"), setup).await);
    engine.set_up_wallet("--day 10 --txn 10 --auto 0.5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let body = agent.ask(engine.now_s(), &offer(12_000, 1), None);
    let asking = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.post("/sign", &body).await })
    };
    let held_back = timeout(TIMEOUT, sign_requests.recv()).await.expect("in time").expect("a slip");
    let signed = engine.engine.vault().sign(held_back.slip, held_back.terms).await;
    assert!(signed.is_ok(), "{signed:?}");
    // A commit fails between the signature and its record.
    faults.armed.store(true, Ordering::SeqCst);
    assert_eq!(engine.operator().run_refused("freeze").await.code, Code::JournalFailed);
    held_back.answer.send(signed).unwrap();
    let (status, answer) = timeout(TIMEOUT, asking).await.expect("in time").unwrap();
    assert_eq!((status, &answer["status"]), (200, &json!("success")), "{answer}");
    let path = format!("/sign/status/{}", answer["transaction_id"].as_str().unwrap());
    assert_eq!(engine.get(&path).await, (200, answer));
}

/// Waits until the core knows the signature of a request.
async fn wait_until_recorded(engine: &TestEngine, id: RequestId) {
    loop {
        let request = engine.engine.core().request(id).await.unwrap().unwrap();
        if matches!(request.status, Status::Authorized { signature: Some(_), .. }) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_wallet_whose_creation_failed_late_can_be_opened_or_created_again() {
    for point in ["journal.before_commit", "journal.before_sync", "journal.after_commit"] {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("data");
        let fault = Some(format!("fail:{point}:1"));
        let mut engine =
            EngineProcess::start(&folder, &StartOptions { fault, ..StartOptions::default() });
        let fault = engine.operator().await.run_refused("wallet create main").await;
        assert_eq!(fault.code, Code::JournalFailed, "{point}: {fault}");
        assert_eq!(engine.terminate(), Some(0));

        let engine = EngineProcess::start(&folder, &StartOptions::default());
        let mut operator = engine.operator().await;
        let opened = operator.outcome("wallet open").await.reply.result;
        let created = operator.outcome("wallet create main").await.reply.result;
        let file = folder.join("wallets/main.wallet");
        let way_out = created.as_ref().err().is_some_and(|fault| {
            fault.message.contains(&file.display().to_string())
                && fault.message.contains("move it away")
        });
        assert!(opened.is_ok() || created.is_ok() || way_out, "{point}: {opened:?} {created:?}");
    }
}

/// A lock overtakes a request on its way to the core. The request waits for a chain that the test controls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_overtaken_by_a_lock_leaves_a_trusted_journal() {
    let used = UsedFolder::new().await;
    let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = Some(format!("http://{}", node.local_addr().unwrap()));
    let start = StartOptions { has_password: true, rpc, ..StartOptions::default() };
    let engine = EngineProcess::start(&used.folder(), &start);
    let caller = AgentClient::for_url(&engine.url);
    // The offer names another token domain, which makes the engine ask the chain.
    let mut challenge = offers::challenge(BASE, 15_000, "https://api.example.com/late");
    challenge["accepts"][0]["extra"]["name"] = json!("Not The Dollar");
    let header = offers::header(&challenge);
    let body = used.agent.ask(jiff::Timestamp::now().as_second(), &header, None);
    let asking = {
        let caller = caller.clone();
        tokio::spawn(async move { caller.post("/sign", &body).await })
    };
    let asked = timeout(TIMEOUT, node.accept()).await.expect("the chain is asked").unwrap();
    let mut operator = engine.operator().await;
    operator.must("wallet lock").await;
    drop((asked, node));
    let (status, bytes) = timeout(TIMEOUT, asking).await.unwrap().unwrap().unwrap();
    let answer = json_or_null(&bytes);
    let opened = operator.outcome("wallet open").await.reply;
    assert!(opened.warnings.is_empty(), "answered {status} {answer}, then {:?}", opened.warnings);
    // The answer of a locked wallet.
    assert_eq!((status, &answer["code"]), (401, &json!("AUTH_FAILED")), "{answer}");
}
