//! `doctor` over the control channel.

use std::sync::atomic::Ordering;

use bursar_control::answers::{Answer, CheckAnswer, CheckResult};
use bursar_engine::engine::Mode;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::operator::Expect;

async fn checks(engine: &TestEngine) -> Vec<CheckAnswer> {
    match engine.operator().must("doctor").await {
        Answer::Doctor { checks } => checks,
        other => panic!("{other:?}"),
    }
}

fn result(checks: &[CheckAnswer], name: &str) -> CheckResult {
    let found = checks.iter().find(|check| check.check == name);
    found.unwrap_or_else(|| panic!("no check {name}: {checks:?}")).result
}

#[tokio::test]
async fn doctor_passes_a_healthy_wallet_and_writes_nothing() {
    for mode in [Mode::Full, Mode::Maintenance] {
        let engine = TestEngine::start(Setup { mode, ..Setup::default() }).await;
        engine.set_up_wallet("--day 1").await;
        let head = engine.engine.core().view().head;
        let found = checks(&engine).await;
        assert!(found.iter().all(|check| check.result != CheckResult::Fail), "{found:?}");
        assert_eq!(result(&found, "wallet"), CheckResult::Ok);
        assert_eq!(result(&found, "journal"), CheckResult::Ok);
        // Base is enabled and has no endpoint.
        assert_eq!(result(&found, "Base"), CheckResult::Warn);
        let alone = result(&found, "engine") == CheckResult::Warn;
        assert_eq!(alone, mode == Mode::Maintenance);
        assert_eq!(engine.engine.core().view().head, head);
    }
}

#[tokio::test]
async fn doctor_reports_each_fault_in_its_own_line() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.set_up_wallet("--day 1").await;
    engine.disk.free_bytes.store(1 << 20, Ordering::SeqCst);
    std::fs::write(engine.folder.join("wallets/main.wallet"), "not a wallet").unwrap();
    let mut operator = engine.operator();
    operator.must("network disable base").await;
    let found = checks(&engine).await;
    assert_eq!(result(&found, "disk space"), CheckResult::Fail);
    assert_eq!(result(&found, "wallet"), CheckResult::Fail);
    assert!(!found.iter().any(|check| check.check == "Base"), "only what is on is asked");
    assert_eq!(result(&found, "agent server"), CheckResult::Warn);
    operator.must("config set server.listen 127.0.0.1:0").await;
    operator.must("config set server.hosts wallet.lan").await;
    operator.must("server start").await;
    let found = checks(&engine).await;
    let server = found.iter().find(|check| check.check == "agent server").unwrap();
    assert!(
        server.result == CheckResult::Ok && server.finding.contains("wallet.lan"),
        "{server:?}"
    );
}
