//! Mandates for an address on a device: a personal message, which a person signs or refuses there.

use bursar_control::answers::{Answer, MandateStatus};
use bursar_core::codes::Code;
use bursar_ledger_device::device::Decision;
use bursar_tests::operator::Expect;

use super::support::Bench;

const POLICY: &str = "--day 10 --txn 5 --auto 0.5";

#[tokio::test(flavor = "multi_thread")]
async fn device_shows_the_text_and_signs_it() {
    let bench = Bench::start(POLICY, "bearer").await;
    let mut operator = bench.engine.operator();
    let signing = tokio::spawn(async move { operator.must("mandate create bot").await });
    let screen = bench.prompt().await;
    assert!(screen.join(" ").contains("IntentMandate"), "{screen:?}");
    assert!(screen.join(" ").contains(&bench.agent.id), "{screen:?}");
    bench.press(Decision::Press).await;
    let Answer::Mandate(signed) = signing.await.expect("it ends") else { panic!("a mandate") };
    assert_eq!(signed.status, MandateStatus::InForce);
    let document = signed.mandate.expect("signed").to_string();
    let checked = bursar_mandate::read(document.as_bytes()).expect("a mandate");
    assert_eq!(checked.defects, []);
    assert_eq!(checked.signer.expect("signed").to_checksum(None), bench.address);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusal_on_the_device_ends_the_mandate() {
    let bench = Bench::start(POLICY, "bearer").await;
    let mut operator = bench.engine.operator();
    let signing = tokio::spawn(async move { operator.run_refused("mandate create bot").await });
    bench.prompt().await;
    bench.press(Decision::Refuse).await;
    assert_eq!(signing.await.expect("it ends").code, Code::LedgerRejected);
    assert_eq!(
        bench.engine.operator().run_refused("mandate show bot").await.code,
        Code::NothingFound
    );
}

/// Money goes first: the prompt of a payment is shown before that of a mandate that came earlier.
#[tokio::test(flavor = "multi_thread")]
async fn mandate_waits_behind_the_payments_and_ends_after_15_minutes() {
    let bench = Bench::start(POLICY, "bearer").await;
    bench.device.set_locked(true);
    let mut operator = bench.engine.operator();
    let signing = tokio::spawn(async move { operator.run_refused("mandate create bot").await });
    bench
        .wait_until("the mandate waits", async || {
            let shown = bench.engine.operator().must("status").await;
            let Answer::Status(status) = shown else { panic!("a status") };
            status.device.filter(|device| device.waiting == 1)
        })
        .await;
    let (_code, asked) = bench.ask(12_000, 1).await;
    assert_eq!(asked["waits_for"], "device", "{asked}");
    bench.device.set_locked(false);
    let screen = bench.prompt().await;
    assert!(!screen.join(" ").contains("IntentMandate"), "{screen:?}");
    bench.press(Decision::Press).await;
    let id = asked["request_id"].as_str().expect("an id");
    bench.poll_until_status(id, "success").await;
    let screen = bench.prompt().await;
    assert!(screen.join(" ").contains("IntentMandate"), "{screen:?}");
    bench.engine.clock.advance(15 * 60_000);
    bench.wait_until("the end", async || signing.is_finished().then_some(())).await;
    assert_eq!(signing.await.expect("it ends").code, Code::RequestExpired);
}
