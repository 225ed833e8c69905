//! `requests` while agents do their worst.

use bursar_core::answers::Answer;
use bursar_core::limits::{HELD_PER_AGENT, URL_BYTES};
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::{BASE, challenge, header};
use bursar_tests::operator::Expect;

#[tokio::test]
async fn a_queue_of_long_urls_can_still_be_shown_and_decided() {
    let engine = TestEngine::start(Setup::default()).await;
    engine.furnish("--day 100 --txn 10").await;
    let long = |n: usize| format!("https://a.example/{n}/{}", "x".repeat(URL_BYTES - 40));
    let mut waiting = 0;
    for agent in 0..9 {
        let hired = engine.hire(&format!("bot{agent}"), "bearer").await;
        for n in 0..HELD_PER_AGENT {
            engine.clock.advance(300);
            let offer = header(&challenge(BASE, 1000, &long(n)));
            let ask = hired.ask(engine.now_s(), &offer, Some(&long(n)));
            let (status, answer) = engine.post("/sign", &ask).await;
            assert_eq!(status, 202, "{answer}");
            waiting += 1;
        }
    }
    let mut operator = engine.operator();
    let listed = operator.outcome("requests --all").await;
    let Ok(Answer::Requests { requests }) = listed.reply.result else { panic!("{listed:?}") };
    assert!(requests.len() > 50 && requests.len() < waiting, "{}", requests.len());
    assert_eq!(listed.reply.warnings[0].code, "MORE_REQUESTS");
    for request in &requests {
        operator.must(&format!("deny {}", request.id)).await;
    }
    let rest = operator.outcome("requests").await;
    let Ok(Answer::Requests { requests: rest, .. }) = rest.reply.result else { panic!() };
    assert_eq!(rest.len(), waiting - requests.len());
}
