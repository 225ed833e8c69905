//! An in-process engine on a folder that tests can close, change and reopen.

use std::path::PathBuf;
use std::sync::Arc;

use bursar_chain::clock::manual::ManualClock;
use bursar_control::answers::{Answer, AuditAnswer, Warning};
use bursar_core::card::HoldReason;
use bursar_core::time::Utc;
use bursar_engine::ports::{Failpoints, NoFailpoints};
use bursar_tests::agent::Agent;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine};
use bursar_tests::files::copy_folder;
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};
use serde_json::Value;
use tempfile::TempDir;

/// Pays up to 0.50 dollars automatically, and at most ten per payment and per day.
pub(crate) const POLICY: &str = "--day 10 --txn 10 --auto 0.5";

/// A folder, its engine while one runs, and an agent that pays.
#[derive(Debug)]
pub(crate) struct Stage {
    home: TempDir,
    engine: Option<TestEngine>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) agent: Agent,
    requests_sent: u64,
    /// Whether time must pass while the wallet opens: wrong passwords delay the next attempt.
    pub(crate) after_wrong_passwords: bool,
}

impl Stage {
    /// Starts with a wallet and an agent that has paid twice.
    pub(crate) async fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
        let setup = Setup { clock: Arc::clone(&clock), ..Setup::default() };
        let engine = TestEngine::open(home.path().join("data"), setup).await;
        engine.set_up_wallet(POLICY).await;
        let agent = engine.add_agent("bot", "hmac").await;
        let mut stage = Self {
            home,
            engine: Some(engine),
            clock,
            agent,
            requests_sent: 0,
            after_wrong_passwords: false,
        };
        for _payment in 0..2 {
            assert_eq!(stage.pay().await.0, 200);
        }
        stage
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("data")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder().join("journal.redb")
    }

    /// Restores a copy of the journal that was made before the history file existed.
    pub(crate) fn put_back(&self, journal: &[u8]) {
        std::fs::write(self.journal(), journal).unwrap();
        let _there_or_not = std::fs::remove_file(self.folder().join("journal-history.redb"));
    }

    pub(crate) fn wallet(&self) -> PathBuf {
        self.folder().join("wallets/main.wallet")
    }

    pub(crate) fn engine(&self) -> &TestEngine {
        self.engine.as_ref().expect("an engine runs")
    }

    pub(crate) fn operator(&self) -> Operator {
        self.engine().operator()
    }

    /// Stops the engine cleanly: pending entries are written, and the wallet notes the journal's head.
    pub(crate) async fn close(&mut self) {
        let engine = self.engine.take().expect("an engine runs");
        drop(engine.http);
        engine.engine.stop().await;
    }

    /// Starts the engine; the wallet stays closed.
    pub(crate) async fn start(&mut self) {
        self.start_with(Arc::new(NoFailpoints)).await;
    }

    pub(crate) async fn start_with(&mut self, faults: Arc<dyn Failpoints>) {
        let setup =
            Setup { clock: Arc::clone(&self.clock), failpoints: faults, ..Setup::default() };
        self.engine = Some(TestEngine::open(self.folder(), setup).await);
    }

    /// Starts the engine and opens the wallet, which must succeed; returns the warnings.
    pub(crate) async fn open(&mut self) -> Vec<Warning> {
        self.start().await;
        self.open_wallet().await
    }

    /// Opens the wallet of the running engine; returns the warnings.
    pub(crate) async fn open_wallet(&self) -> Vec<Warning> {
        let mut operator = self.operator();
        let opening = operator.outcome("wallet open");
        // Fast-forwarding would expire allowances and payments, so it happens only after wrong passwords.
        let outcome = match self.after_wrong_passwords {
            true => self.engine().while_time_passes(opening).await,
            false => opening.await,
        };
        let reply = outcome.reply;
        assert!(reply.result.is_ok(), "{:?}", reply.result);
        reply.warnings
    }

    /// Stops the engine, changes the folder, and reopens it.
    pub(crate) async fn restart_after(&mut self, change: impl FnOnce(&Self)) -> Vec<Warning> {
        self.close().await;
        change(self);
        self.open().await
    }

    /// Copies the folder, possibly under a running engine, as a thief would.
    pub(crate) fn copy(&self, name: &str) -> PathBuf {
        let to = self.home.path().join(name);
        copy_folder(&self.folder(), &to);
        to
    }

    /// Builds a new request for a little more than a cent.
    pub(crate) fn next_ask(&mut self) -> Value {
        self.requests_sent += 1;
        self.agent.ask(
            self.engine().now_s(),
            &offer(12_000 + self.requests_sent, self.requests_sent),
            None,
        )
    }

    /// Sends a new request for a little more than a cent.
    pub(crate) async fn pay(&mut self) -> (u16, Value) {
        let body = self.next_ask();
        self.engine().post("/sign", &body).await
    }

    /// Sends a request and expects it to be held because the journal is untrusted.
    pub(crate) async fn assert_held_as_untrusted(&mut self) {
        let (status, answer) = self.pay().await;
        assert_eq!((status, answer["status"].as_str()), (202, Some("pending")), "{answer}");
        let line = "requests";
        let Answer::Requests { requests } = self.operator().must(line).await else { panic!() };
        let id = answer["request_id"].as_str().unwrap();
        let held = requests.into_iter().find(|request| request.id == id).expect("it waits");
        let card = held.card.expect("a card");
        assert_eq!(card.hold, HoldReason::JournalUntrusted);
    }

    pub(crate) async fn audit(&self) -> AuditAnswer {
        match self.operator().must("audit verify").await {
            Answer::Audit(audit) => audit,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn head(&self) -> (u64, String) {
        match self.operator().must("status").await {
            Answer::Status(status) => (status.journal, status.head),
            other => panic!("{other:?}"),
        }
    }
}

/// Asserts exactly one warning, about an untrusted journal for this reason.
pub(crate) fn assert_untrusted_warning(warnings: &[Warning], why: &str) {
    let [warning] = warnings else { panic!("{warnings:?}") };
    assert_eq!(warning.code, "JOURNAL_UNTRUSTED");
    assert!(warning.message.contains(why), "{why:?} is not in: {}", warning.message);
    assert!(warning.message.contains("audit accept"), "{}", warning.message);
}
