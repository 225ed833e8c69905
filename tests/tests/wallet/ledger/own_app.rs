//! Ledger's own app in its emulator (docs/wallet.md says how to start it):
//! `BURSAR_LEDGER_EMULATOR=127.0.0.1:9999 cargo test -p bursar-tests --test wallet ledger::own_app -- --ignored`.

use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_device::emulator::Emulators;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;

use super::support::wait_until;

/// In a newly installed app, both switches are off.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Ledger's emulator at BURSAR_LEDGER_EMULATOR"]
async fn a_payment_waits_for_a_switch_of_ledgers_own_app() {
    let at = std::env::var("BURSAR_LEDGER_EMULATOR").expect("where the emulator is");
    let devices = Some(Arc::new(Emulators::parse(&at).unwrap()) as _);
    let engine = TestEngine::start(Setup { devices, ..Setup::default() }).await;
    engine.set_up_wallet("--day 10 --txn 5 --auto 0.5").await;
    let agent = engine.add_agent("bot", "bearer").await;
    let mut operator = engine.operator();
    operator.must("address ledger add 0 safe").await;
    operator.must(&format!("agent commission {} p safe", agent.id)).await;
    let (_code, asked) =
        engine.post("/sign", &agent.ask(engine.now_s(), &offer(12_000, 1), None)).await;
    assert_eq!(asked["waits_for"], "device", "{asked}");
    wait_until(&engine, "a prompt, or the missing switch", async || {
        let Answer::Status(status) = engine.operator().must("status").await else {
            panic!("a status")
        };
        assert_eq!(status.ledger_emulator.as_deref(), Some(at.as_str()));
        status.device.filter(|device| device.is_prompting || device.may_retry)
    })
    .await;
}
