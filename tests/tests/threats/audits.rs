//! The check of the journal while it grows.

use std::sync::Arc;

use bursar_core::answers::Answer;
use bursar_tests::offers::offer;
use bursar_tests::operator::Expect;

use crate::stage::{engine_with, quick, shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t_45_an_audit_while_agents_pay_reports_no_damage() {
    let policy = "--day 1000 --txn 1 --auto 1";
    let (engine, agent) = engine_with(quick(), policy, "bearer").await;
    let engine = shared(engine);
    let payers: Vec<_> = (0..8u64)
        .map(|client| {
            let (engine, agent) = (Arc::clone(&engine), agent.clone());
            tokio::spawn(async move {
                for n in 0..40 {
                    let body = agent.ask(engine.now_s(), &offer(1_000, client * 1_000 + n), None);
                    assert_eq!(engine.post("/sign", &body).await.0, 200);
                }
            })
        })
        .collect();
    let mut operator = engine.operator();
    let (mut audits, mut grown, mut last) = (0, 0, 0);
    while payers.iter().any(|payer| !payer.is_finished()) || audits < 12 {
        let Answer::Audit(audit) = operator.must("audit verify").await else { panic!() };
        assert!(audit.untrusted.is_none(), "{audit:?}");
        (audits, grown) = (audits + 1, grown + usize::from(audit.entries > last));
        last = audit.entries;
    }
    for payer in payers {
        payer.await.unwrap();
    }
    assert!(grown > 1, "the journal grew under {grown} of {audits} audits");
}
