//! Payments from a device's address: an agent asks, and a person presses.

use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::status::DecidedStatus;
use bursar_ledger_device::device::Decision;
use bursar_tests::offers::{PAY_TO, signed_terms};
use bursar_tests::operator::Expect;
use serde_json::{Value, json};

use super::support::Bench;

const POLICY: &str = "--day 10 --txn 5 --auto 0.5";

fn header(answer: &Value) -> &str {
    answer["header_value"].as_str().expect("a header")
}

/// Asserts that a header has a signature of this address over its terms.
pub(crate) fn assert_signed_by(answer: &Value, address: &str) {
    let (terms, signer) = signed_terms(header(answer));
    assert_eq!((signer.as_str(), terms.from.to_string().as_str()), (address, address));
}

fn id(answer: &Value) -> &str {
    answer["request_id"].as_str().expect("an id")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_waits_for_the_button_and_is_signed_by_the_device() {
    for auth in ["hmac", "bearer"] {
        let bench = Bench::start(POLICY, auth).await;
        let (code, answer) = bench.ask(12_000, 1).await;
        assert_eq!((code, &answer["status"]), (202, &json!("pending")), "{answer}");
        let shown = bench.prompt().await;
        assert!(shown.iter().any(|page| page.contains("12000")), "{shown:?}");
        bench.poll_until_status(id(&answer), "executing").await;
        bench.press(Decision::Press).await;
        let paid = bench.poll_until_status(id(&answer), "success").await;
        let (terms, signer) = signed_terms(header(&paid));
        assert_eq!(signer, bench.address);
        assert_eq!(terms.from.to_string(), signer);
        assert_eq!(
            (terms.to.to_string(), terms.value.to_string()),
            (PAY_TO.into(), "12000".into())
        );
        // A repeated request gets the same answer, without a second prompt on the device.
        assert_eq!(bench.ask(12_000, 1).await.1["header_value"], paid["header_value"]);
        let asked = bench.device.log().iter().filter(|line| line.contains("asked:")).count();
        assert_eq!(asked, 1, "{:?}", bench.device.log());
        let _alive = Arc::strong_count(&bench.device);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_on_the_device_rejects_the_payment_and_returns_its_value() {
    let bench = Bench::start("--day 0.03 --txn 0.02 --auto 0.021", "bearer").await;
    let (_code, first) = bench.ask(20_000, 1).await;
    // While the payment waits for the device, its value is reserved.
    assert_eq!(bench.ask(20_000, 2).await.1["code"], "EXCEEDS_DAILY_LIMIT");
    bench.prompt().await;
    bench.press(Decision::Refuse).await;
    let rejected = bench.poll_until_status(id(&first), "rejected").await;
    assert_eq!(rejected["code"], "LEDGER_REJECTED", "{rejected}");
    // A repeated request gets the same answer; the reserved value is free again for another payment.
    assert_eq!(bench.ask(20_000, 1).await.1["code"], "LEDGER_REJECTED");
    let (_code, other) = bench.ask(20_000, 3).await;
    bench.prompt().await;
    bench.press(Decision::Press).await;
    bench.poll_until_status(id(&other), "success").await;
    bench.engine.operator().must("audit verify").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_can_wait_for_the_device() {
    let bench = Bench::start("--day 10 --txn 5 --auto 0", "bearer").await;
    for (n, decision) in [(1, Decision::Press), (2, Decision::Refuse)] {
        let (_code, answer) = bench.ask(12_000, n).await;
        let line = format!("approve {} --yes --wait=5m", id(&answer));
        let mut operator = bench.engine.operator();
        let (outcome, ()) = tokio::join!(operator.outcome(&line), async {
            bench.prompt().await;
            bench.press(decision).await;
        });
        match (decision, outcome.reply.result) {
            (Decision::Press, Ok(Answer::Decided(decided))) => {
                assert_eq!(decided.status, DecidedStatus::Signed);
            }
            (Decision::Refuse, Err(fault)) => assert_eq!(fault.code, Code::LedgerRejected),
            (_, odd) => panic!("{odd:?}"),
        }
    }

    // The time of the command ends its wait, and not the request.
    let (_code, answer) = bench.ask(12_000, 3).await;
    let line = format!("approve {} --yes --wait=0", id(&answer));
    let fault = bench.engine.operator().run_refused(&line).await;
    assert_eq!(fault.code, Code::WaitRanOut);
    bench.prompt().await;
    bench.press(Decision::Press).await;
    bench.poll_until_status(id(&answer), "success").await;
    // A request that has already ended is refused with its end.
    let fault = bench.engine.operator().run_refused(&line).await;
    assert_eq!(fault.code, Code::AlreadyDecided, "{fault}");
}
