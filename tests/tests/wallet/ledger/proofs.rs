//! Proofs of receipts for an address on a device: a personal message, which a person signs or refuses there.

use std::sync::Arc;

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::edition::{EditionName, EditionRules};
use bursar_ledger_device::device::Decision;
use bursar_tests::operator::Expect;

use super::support::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn device_shows_the_statement_of_a_proof_and_signs_or_refuses_it() {
    let bench = Bench::start("--day 10 --txn 5 --auto 0.5", "bearer").await;
    let (_code, asked) = bench.ask(12_000, 1).await;
    let id = asked["request_id"].as_str().expect("an id").to_owned();
    bench.prompt().await;
    bench.press(Decision::Press).await;
    bench.poll_until_status(&id, "success").await;
    bench.engine.clock.advance(3_700_000);
    let line = format!("receipt {id} --proof p");
    let (mut operator, first) = (bench.engine.operator(), line.clone());
    let proving = tokio::spawn(async move { operator.outcome(&first).await });
    let screen = bench.prompt().await;
    assert!(screen.join(" ").contains("BursarReceiptProof"), "{screen:?}");
    bench.press(Decision::Press).await;
    let outcome = proving.await.expect("it ends");
    let Ok(Answer::Proof(proof)) = outcome.reply.result else { panic!("a proof") };
    assert_eq!(proof.signer.as_ref(), Some(&bench.address));
    let rules = Arc::new(EditionRules::of(EditionName::Full));
    let found =
        bursar_engine::proofs::check(outcome.file.as_bytes(), None, rules).expect("a proof");
    assert_eq!(found.defects, [""; 0]);
    let mut operator = bench.engine.operator();
    let proving = tokio::spawn(async move { operator.run_refused(&line).await });
    bench.prompt().await;
    bench.press(Decision::Refuse).await;
    assert_eq!(proving.await.expect("it ends").code, Code::LedgerRejected);
}
