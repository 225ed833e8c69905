//! Swapped devices and false signatures.

use bursar_core::codes::Code;
use bursar_ledger_device::device::{Decision, Lie};
use bursar_ledger_device::key::Seed;
use serde_json::Value;

use super::support::{Bench, OTHER_WORDS, SEED_WORDS};

/// T-35: the wallet derives the address before each prompt, and accepts only a signature of this address over the
/// recorded terms.
#[tokio::test(flavor = "multi_thread")]
async fn t_35_a_swapped_device_or_another_account_signs_nothing() {
    let bench = Bench::start("--day 10 --txn 5 --auto 0.5", "bearer").await;
    bench.device.decide_itself(Some(Decision::Press));
    bench.device.change(|app| app.seed = Seed::from_words(OTHER_WORDS).unwrap());
    let (_code, asked) = bench.ask(12_000, 1).await;
    let id = asked["request_id"].as_str().unwrap().to_owned();
    let derived = || bench.device.log().iter().filter(|line| line.starts_with("=> e002")).count();
    let before = derived();
    bench.wait_until("three tries", async || (derived() > before + 3).then_some(())).await;
    assert!(bench.device.log().iter().all(|line| !line.contains("asked:")), "nothing was shown");
    bench.device.change(|app| app.seed = Seed::from_words(SEED_WORDS).unwrap());
    bench.poll_until_status(&id, "success").await;
    // The device is swapped after it derived the address, so its signature comes from another account.
    let commands = bench.device.log().iter().filter(|line| line.starts_with("=> ")).count();
    let (_code, asked) = bench.ask(12_000, 2).await;
    let id = asked["request_id"].as_str().unwrap().to_owned();
    bench
        .wait_until("the last check", async || {
            let now = bench.device.log().iter().filter(|line| line.starts_with("=> ")).count();
            (now > commands + 4).then_some(())
        })
        .await;
    bench.device.set_lie(0, Some(Lie::Changed));
    let (_code, polled) = bench.engine.get(&format!("/sign/status/{id}")).await;
    assert_ne!(polled["code"], Value::from(Code::LedgerRejected.text()));
    bench.device.set_lie(0, None);
    let paid = bench.poll_until_status(&id, "success").await;
    super::payments::assert_signed_by(&paid, &bench.address);
}
