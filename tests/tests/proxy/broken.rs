//! An upstream that refuses, breaks off, stalls or sends nonsense: passed on or reported, and never paid.

use bursar_tests::proxy::{ProxyHome, chat, streaming};
use bursar_tests::upstream::{Behavior, KEY, answer};
use serde_json::json;

use crate::stage::{Stage, refusal, status_and_json, wait_until};

#[tokio::test]
async fn upstream_refusals_are_forwarded_unpaid_and_the_payment_stays_valid() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    for status in [400, 404, 422, 429, 500, 503] {
        let text =
            format!("{{\"error\":{{\"message\":\"no {status}\",\"type\":\"x\",\"code\":null}}}}");
        stage.upstream.set_behavior(Behavior::Status(status, text.clone()));
        for body in [&body, &streaming("hello")] {
            let header = stage.customer.sign(2, body).await;
            let response = stage.customer.send(body, &header).await;
            assert!(!response.headers().contains_key("payment-response"));
            assert_eq!(
                (response.status().as_u16(), response.text().await.unwrap()),
                (status, text.clone())
            );
        }
    }
    assert_eq!(stage.facilitator.settle_calls(), 0);
    stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(status_and_json(response).await, (200, answer("hello world")));
    assert_eq!(stage.facilitator.settled(), 1);
}

#[tokio::test]
async fn the_upstreams_key_is_in_no_answer_and_no_log() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    for status in [401, 402, 403] {
        stage
            .upstream
            .set_behavior(Behavior::Status(status, format!("{{\"error\":\"bad key {KEY}\"}}")));
        let response = stage.customer.buy(2, &body).await;
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert_eq!(refusal(response).await, (502, "upstream_key_refused".to_owned()));
    }
    stage.upstream.set_behavior(Behavior::Status(400, format!("{KEY} is not {KEY}{KEY}")));
    let response = stage.customer.buy(2, &body).await;
    assert_eq!(response.text().await.unwrap(), "[key] is not [key][key]");
    assert_eq!(stage.facilitator.settle_calls(), 0);
}

#[tokio::test]
async fn an_answer_that_breaks_off_or_never_comes_costs_nothing() {
    let stage = Stage::with(Behavior::Half, "upstream_ms = 300\nupstream_idle_ms = 300").await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
    stage.upstream.set_behavior(Behavior::Nothing);
    for body in [&body, &streaming("hello")] {
        let response = stage.customer.buy(2, body).await;
        assert_eq!(refusal(response).await, (504, "upstream_timeout".to_owned()));
    }
    stage.upstream.set_behavior(Behavior::Status(307, String::new()));
    let response = stage.customer.buy(2, &body).await;
    assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
    stage.upstream.set_behavior(Behavior::Long(9 << 20));
    let response = stage.customer.buy(2, &body).await;
    assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
    assert_eq!(stage.facilitator.settle_calls(), 0);
    stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
}

/// Errors with status 200, as some servers send them.
#[tokio::test]
async fn an_invalid_upstream_answer_is_not_sold_even_with_status_200() {
    for text in ["", "<html>down</html>", "[]", "{\"error\":{\"message\":\"overloaded\"}}"] {
        let stage = Stage::set_up(Behavior::Status(200, text.to_owned())).await;
        let response = stage.customer.buy(2, &chat("hello")).await;
        assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()), "{text}");
        assert_eq!(stage.facilitator.settle_calls(), 0);
    }
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n".to_owned();
    for pieces in
        [vec![error.clone()], vec![": wait\n\n".to_owned(), error], vec![": wait\n\n".to_owned()]]
    {
        let stage = Stage::set_up(Behavior::Stream(pieces)).await;
        let response = stage.customer.buy(2, &streaming("hello")).await;
        assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
        assert_eq!(stage.facilitator.settle_calls(), 0);
    }
}

#[tokio::test]
async fn an_answer_must_be_complete_within_its_timeout() {
    let stage = Stage::with(Behavior::Stalls, "upstream_ms = 300").await;
    let response = stage.customer.buy(2, &chat("hello")).await;
    assert_eq!(refusal(response).await, (504, "upstream_timeout".to_owned()));
    assert_eq!(stage.facilitator.settle_calls(), 0);
}

#[tokio::test]
async fn a_payer_of_repeated_upstream_failures_is_locked_out_and_others_are_not() {
    let stage = Stage::set_up(Behavior::Half).await;
    for _time in 0..10 {
        let response = stage.customer.buy(2, &chat("hello")).await;
        assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
    }
    let response = stage.customer.buy(2, &chat("hello")).await;
    assert_eq!(refusal(response).await, (429, "too_many_requests".to_owned()));
    assert_eq!((stage.upstream.calls(), stage.facilitator.verify_calls()), (10, 10));
    let other = bursar_tests::payer::Payer::random();
    let other = bursar_tests::proxy::Customer::of(&stage.proxy.url, other);
    let response = other.buy(2, &chat("hello")).await;
    assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
}

/// The same for payments that cannot be settled once the answer is there.
#[tokio::test]
async fn a_payer_of_repeated_failed_settlements_is_locked_out() {
    let stage = Stage::with_answer().await;
    stage.facilitator.set_settle_reply(
        bursar_tests::scripted_facilitator::FacilitatorReply::Refuses("insufficient_balance"),
    );
    for _time in 0..10 {
        let response = stage.customer.buy(2, &chat("hello")).await;
        assert_eq!(refusal(response).await, (402, "settlement_failed".to_owned()));
    }
    let response = stage.customer.buy(2, &chat("hello")).await;
    assert_eq!(refusal(response).await, (429, "too_many_requests".to_owned()));
    assert_eq!(stage.upstream.calls(), 10);
}

/// The payer does not cause the upstream to refuse this service's key.
#[tokio::test]
async fn a_refused_upstream_key_does_not_count_against_the_payer() {
    let stage = Stage::set_up(Behavior::Status(401, "{}".to_owned())).await;
    for _time in 0..12 {
        let response = stage.customer.buy(2, &chat("hello")).await;
        assert_eq!(refusal(response).await, (502, "upstream_key_refused".to_owned()));
    }
}

#[tokio::test]
async fn an_unreachable_upstream_costs_the_payer_nothing() {
    let stage = Stage::with_answer().await;
    let home = ProxyHome::new("http://127.0.0.1:9/v1", &stage.facilitator.url, "");
    let proxy = home.start().await;
    let customer =
        bursar_tests::proxy::Customer::of(&proxy.url, bursar_tests::payer::Payer::random());
    // Nor does it count against the payer, however often it happens.
    for _time in 0..12 {
        let response = customer.buy(2, &chat("hello")).await;
        assert_eq!(refusal(response).await, (502, "upstream_unavailable".to_owned()));
    }
    assert_eq!(stage.facilitator.settle_calls(), 0);
    proxy.stop().await;
}

#[tokio::test]
async fn requests_over_the_concurrency_limit_are_refused_unpaid() {
    let stage = Stage::with(Behavior::Late(answer("late")), "in_flight = 1").await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let first =
        tokio::spawn(stage.customer.request(&body).header(header.name, &header.value).send());
    wait_until(|| stage.upstream.calls() > 0).await;
    let response = stage.customer.buy(2, &chat("other")).await;
    assert_eq!(response.headers()["retry-after"], "2");
    assert_eq!(refusal(response).await, (503, "busy".to_owned()));
    stage.upstream.open_gate(1);
    assert_eq!(status_and_json(first.await.unwrap().unwrap()).await, (200, answer("late")));
    assert_eq!(stage.facilitator.settled(), 1);
}

#[tokio::test]
async fn a_stopping_proxy_finishes_the_requests_in_flight() {
    let stage = Stage::set_up(Behavior::Late(answer("late"))).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let first =
        tokio::spawn(stage.customer.request(&body).header(header.name, &header.value).send());
    wait_until(|| stage.upstream.calls() > 0).await;
    let Stage { proxy, upstream, .. } = stage;
    let stopped = tokio::spawn(proxy.stop());
    upstream.open_gate(1);
    let (status, reply) = status_and_json(first.await.unwrap().unwrap()).await;
    assert_eq!((status, reply["choices"][0]["message"]["content"].clone()), (200, json!("late")));
    stopped.await.unwrap();
}
