//! One payment buys one answer.

use bursar_tests::proxy::{chat, receipt, streaming_chat};
use bursar_tests::upstream::{Behavior, answer, frames};
use futures::future::join_all;
use serde_json::json;

use crate::proxy::stage::{Stage, refusal, status_and_json, wait_until};

#[tokio::test]
async fn fifty_parallel_uses_of_one_payment_are_one_upstream_call_and_one_charge() {
    for body in [chat("hello"), streaming_chat("hello")] {
        let stream = body.get("stream").is_some();
        let behavior = if stream {
            Behavior::Stream(frames(&["hello", " world"]))
        } else {
            Behavior::Whole(answer("hello world"))
        };
        let stage = Stage::set_up(behavior).await;
        let header = stage.customer.sign(2, &body).await;
        let all = join_all((0..50).map(|_n| async {
            let response = stage.customer.send(&body, &header).await;
            let receipt = receipt(&response);
            (response.status().as_u16(), receipt, response.text().await.unwrap())
        }))
        .await;
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        assert_eq!(all[0].0, 200);
        assert_eq!(stage.counts(), (1, 1), "stream: {stream}");
        assert_eq!(stage.facilitator.verify_calls(), 1);
    }
}

#[tokio::test]
async fn the_same_payment_with_the_same_body_gets_the_stored_answer_also_after_a_restart() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let first = stage.customer.send(&body, &header).await;
    let paid = receipt(&first);
    let first = status_and_json(first).await;
    // The upstream would answer differently now.
    stage.upstream.set_behavior(Behavior::Whole(answer("something else")));
    let stage = stage.restart().await;
    let again = stage.customer.send(&body, &header).await;
    assert_eq!(receipt(&again), paid);
    assert_eq!(status_and_json(again).await, first);
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn the_same_payment_with_another_body_buys_nothing() {
    let stage = Stage::with_answer().await;
    let (body, other) = (chat("hello"), chat("olleh"));
    let header = stage.customer.sign(2, &body).await;
    // Both prices have the same number of digits; the body alone must tell the requests apart.
    let price = |challenge: &bursar_tests::proxy::PaymentRequired| {
        challenge.v1["accepts"][0]["maxAmountRequired"].clone()
    };
    assert_eq!(
        price(&stage.customer.ask(&body).await).as_str().map(str::len),
        price(&stage.customer.ask(&other).await).as_str().map(str::len)
    );
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
    let refused = stage.customer.send(&other, &header).await;
    assert_eq!(refused.headers()["x-should-retry"], "false");
    assert_eq!(refusal(refused).await, (409, "payment_spent".to_owned()));
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn a_known_nonce_and_body_buy_nothing_without_the_signature() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let challenge = stage.customer.ask(&body).await;
    let header = stage.customer.sign_with(2, &challenge, |_due| {});
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
    let stranger = bursar_tests::payer::Payer::random();
    let thief = bursar_tests::proxy::Customer::of(&stage.proxy.url, stranger);
    let forged = thief.sign_with(2, &challenge, |terms| {
        terms.from = header.terms.from;
        terms.nonce = header.terms.nonce;
        terms.valid_before_s = header.terms.valid_before_s;
    });
    let refused = thief.send(&body, &forged).await;
    assert_eq!(refusal(refused).await, (409, "payment_spent".to_owned()));
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn an_answer_too_long_to_keep_is_sent_once_and_then_reported() {
    let stage = Stage::set_up(Behavior::Long(1 << 20)).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(response.status(), 200);
    assert!(response.bytes().await.unwrap().len() > 1 << 20);
    let again = stage.customer.send(&body, &header).await;
    assert_eq!(receipt(&again)["success"], json!(true));
    let (status, answer) = status_and_json(again).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("answer_not_kept")));
    assert_eq!(answer["x402"]["charged"], "yes");
    assert_eq!(answer["x402"]["receipt"]["success"], true);
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn a_customer_that_disconnected_gets_the_answer_on_repeat() {
    let stage = Stage::set_up(Behavior::Late(answer("hello world"))).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let request = stage.customer.request(&body).header(header.name, &header.value).send();
    let left = tokio::spawn(request);
    wait_until(|| stage.upstream.calls() > 0).await;
    left.abort();
    let _gone = left.await;
    stage.upstream.open_gate(1);
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(status_and_json(response).await, (200, answer("hello world")));
    assert_eq!(stage.counts(), (1, 1));
}
