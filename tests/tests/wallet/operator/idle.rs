//! The automatic lock, where the operator has enabled it.

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::{Expect, Operator};

use super::activity::activity;

async fn engine() -> TestEngine {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    engine
}

/// Returns the cause of the last lock. Its entry is written after the lock.
async fn last_lock_cause(operator: &mut Operator) -> String {
    for _look in 0..1_000 {
        let rows = activity(operator, "activity --raw --limit 500").await.entries;
        if let Some(row) = rows.into_iter().find(|row| row.kind.text() == "wallet.locked") {
            return row.detail.unwrap_or_default();
        }
    }
    panic!("the lock is in no entry");
}

/// Returns whether the wallet is locked, and the seconds until it locks.
async fn lock_status(operator: &mut Operator) -> (bool, Option<u64>) {
    match operator.must("wallet status").await {
        Answer::Wallet(wallet) => (wallet.locked, wallet.locks_in_s),
        other => panic!("{other:?}"),
    }
}

/// Advances the clock until the wallet is locked; returns the seconds that took.
async fn seconds_until_locked(engine: &TestEngine, operator: &mut Operator) -> u64 {
    for seconds in 0..1_000 {
        if lock_status(operator).await.0 {
            return seconds;
        }
        engine.clock.advance(1_000);
    }
    panic!("the wallet stayed open");
}

#[tokio::test]
async fn an_idle_wallet_locks_automatically() {
    let engine = engine().await;
    let mut operator = engine.operator();
    let agent = engine.add_agent("bot", "bearer").await;
    assert_eq!(lock_status(&mut operator).await, (false, None));
    operator.must("config set lock.idle 60").await;
    let (locked, left) = lock_status(&mut operator).await;
    assert!(!locked && left.is_some_and(|left| left <= 60), "{left:?}");

    assert!(seconds_until_locked(&engine, &mut operator).await >= 60);
    assert_eq!(lock_status(&mut operator).await, (true, None));
    assert_eq!(last_lock_cause(&mut operator).await, "automatically: it was not used");
    let (status, answer) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(1000, 1), None)).await;
    assert_eq!(status, 503, "{answer}");

    // Requests of agents count as use.
    operator.must("wallet open").await;
    for n in 2..5 {
        engine.clock.advance(40_000);
        let (status, answer) =
            engine.post("/sign", &agent.ask(engine.now_s(), &offer(1000, n), None)).await;
        assert_eq!(status, 200, "{answer}");
    }
    assert!(seconds_until_locked(&engine, &mut operator).await >= 60);

    // A longer time loosens the lock, and so does turning it off; both need the open wallet.
    for looser in ["61", "off", "default"] {
        let refused = operator.run_refused(&format!("config set lock.idle {looser}")).await;
        assert_eq!(refused.code, Code::WalletLocked, "{looser}");
    }
    for wrong in ["59", "604801", "0", "soon"] {
        assert_eq!(
            operator.run_refused(&format!("config set lock.idle {wrong}")).await.code,
            Code::BadInput
        );
    }
}

/// Restoring an older wallet file must not keep the wallet open.
#[tokio::test]
async fn an_idle_wallet_with_an_untrusted_journal_locks_too() {
    let engine = engine().await;
    let mut operator = engine.operator();
    operator.must("config set lock.idle 60").await;
    let wallet = engine.folder.join("wallets/main.wallet");
    let older = std::fs::read(&wallet).unwrap();
    engine.add_agent("bot", "hmac").await;
    drop(operator);
    let path = engine.folder.clone();
    let engine = engine.restart(Setup::default()).await;
    for file in std::fs::read_dir(path.join("wallets")).unwrap() {
        std::fs::write(file.unwrap().path(), &older).unwrap();
    }
    let mut operator = engine.operator();
    let opened = operator.outcome("wallet open").await.reply;
    assert!(
        opened.warnings.iter().any(|warning| warning.code == "JOURNAL_UNTRUSTED"),
        "{opened:?}"
    );
    assert!(seconds_until_locked(&engine, &mut operator).await >= 60);
}

#[tokio::test]
async fn a_wallet_locks_after_the_machine_slept() {
    let engine = engine().await;
    let mut operator = engine.operator();
    engine.clock.advance(5_000);
    // The automatic lock is off, so the wallet stays open.
    engine.clock.suspend(3_600_000);
    for _second in 0..10 {
        engine.clock.advance(1_000);
        assert!(!lock_status(&mut operator).await.0);
    }
    operator.must("config set lock.idle 3600").await;
    engine.clock.suspend(120_000);
    let seconds = seconds_until_locked(&engine, &mut operator).await;
    assert!(seconds < 600, "by the sleep, and not by its hour: {seconds} s");
    assert_eq!(last_lock_cause(&mut operator).await, "automatically: the machine had slept");
}
