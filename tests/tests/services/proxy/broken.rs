//! An upstream that refuses, breaks off, stalls or sends garbage: its answers are passed on or
//! reported, and never charged.

use bursar_tests::proxy::{ProxyHome, chat, streaming_chat};
use bursar_tests::upstream::{Behavior, KEY, answer};
use serde_json::json;

use crate::proxy::stage::{Stage, refusal, status_and_json, wait_until};

#[tokio::test]
async fn upstream_refusals_are_forwarded_unpaid_and_the_payment_stays_valid() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    for status in [400, 404, 422, 429, 500, 503] {
        let text =
            format!("{{\"error\":{{\"message\":\"no {status}\",\"type\":\"x\",\"code\":null}}}}");
        stage.upstream.set_behavior(Behavior::Status(status, text.clone()));
        for body in [&body, &streaming_chat("hello")] {
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
    for body in [&body, &streaming_chat("hello")] {
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

/// The customer did not pay for a part of an answer, or for the promise of one.
#[tokio::test]
async fn a_success_other_than_200_is_not_sold() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let whole = answer("hello world").to_string();
    for status in [201, 202, 203, 204, 206, 226, 304] {
        let text = if matches!(status, 204 | 304) { String::new() } else { whole.clone() };
        stage.upstream.set_behavior(Behavior::Status(status, text));
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()), "{status}");
        let models = stage.customer.client.get(format!("{}/v1/models", stage.proxy.url));
        let models = models.send().await.unwrap();
        assert_eq!(refusal(models).await, (502, "upstream_broken".to_owned()), "{status}");
    }
    assert_eq!(stage.facilitator.settle_calls(), 0);
    stage.upstream.set_behavior(Behavior::Status(200, whole));
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
        let response = stage.customer.buy(2, &streaming_chat("hello")).await;
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

/// Broken or overloaded servers send answers without a choice, and streams without content.
#[tokio::test]
async fn an_answer_without_content_costs_nothing_and_never_locks_the_payer_out() {
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":0}}\n\n";
    let done = "data: [DONE]\n\n";
    let stream = |frames: &[&str]| Behavior::Stream(vec![frames.concat()]);
    let stage = Stage::with_answer().await;
    let (body, streamed) = (chat("hello"), streaming_chat("hello"));
    let header = stage.customer.sign(2, &body).await;
    // These are more faults than a payer may cause, each with its own payment.
    for behavior in [
        Behavior::Whole(json!({})),
        Behavior::Whole(json!({ "choices": [] })),
        Behavior::Whole(json!({ "choices": [{}], "usage": { "completion_tokens": 0 } })),
        Behavior::Half,
        Behavior::NoPiece,
        Behavior::Status(200, "<html>down</html>".to_owned()),
        Behavior::Status(302, String::new()),
        stream(&[done]),
        stream(&[role]),
        stream(&[role, done]),
        stream(&[": wait\n\n", role, usage, done]),
        stream(&["data: {}\n\n", "data: nonsense\n\n", done]),
        stream(&[&format!(": {}\n\n", "x".repeat(2 << 20)), role]),
    ] {
        stage.upstream.set_behavior(behavior.clone());
        for body in [&body, &streamed] {
            let response = stage.customer.buy(2, body).await;
            assert!(!response.headers().contains_key("payment-response"));
            let (status, reply) = status_and_json(response).await;
            let named = (status, &reply["error"]["code"], &reply["x402"]["charged"]);
            assert_eq!(named, (502, &json!("upstream_broken"), &json!("no")), "{behavior:?}");
        }
    }
    assert_eq!(stage.facilitator.settle_calls(), 0);
    // The faults leave nothing behind: the payment is still valid, and its payer is served.
    stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
    assert_eq!(stage.facilitator.settled(), 1);
}

/// The model has worked: it read the prompt, and either wrote tokens or met a stop word at once.
#[tokio::test]
async fn an_empty_text_and_reported_tokens_are_charged() {
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let stop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let tokens = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n";
    let stage = Stage::with_answer().await;
    for whole in [answer(""), json!({ "choices": [], "usage": { "completion_tokens": 3 } })] {
        stage.upstream.set_behavior(Behavior::Whole(whole.clone()));
        let response = stage.customer.buy(2, &chat("hello")).await;
        assert_eq!(status_and_json(response).await, (200, whole));
    }
    for last in [stop, tokens] {
        stage.upstream.set_behavior(Behavior::Stream(vec![role.to_owned(), last.to_owned()]));
        let response = stage.customer.buy(2, &streaming_chat("hello")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.text().await.unwrap(), format!("{role}{last}"));
    }
    assert_eq!(stage.facilitator.settled(), 4);
}

/// An upstream that hangs is not the payer's fault. Until the upstream has answered or
/// failed, its call counts as unpaid.
#[tokio::test]
async fn uncharged_calls_stay_within_the_payers_unpaid_limit_and_leave_no_debt() {
    let stage = Stage::with_answer().await;
    let price = stage.customer.ask(&chat("hello")).await.v1["price"]["usd"].clone();
    let bound = format!("max_unpaid_usd_per_payer = {price}");
    let stage = Stage::with(Behavior::Late(json!({})), &bound).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let first =
        tokio::spawn(stage.customer.request(&body).header(header.name, &header.value).send());
    wait_until(|| stage.upstream.calls() == 1).await;
    let second = stage.customer.buy(2, &body).await;
    assert_eq!(refusal(second).await, (429, "unpaid_limit".to_owned()));
    stage.upstream.open_gate(1);
    let first = refusal(first.await.unwrap().unwrap()).await;
    assert_eq!(first, (502, "upstream_broken".to_owned()));
    let stage = stage.restart_with(&format!("{bound}\nupstream_ms = 100")).await;
    stage.upstream.set_behavior(Behavior::Nothing);
    for _time in 0..11 {
        let response = stage.customer.buy(2, &body).await;
        assert_eq!(refusal(response).await, (504, "upstream_timeout".to_owned()));
    }
    let stage = stage.restart_with(&bound).await;
    stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
}

/// This payer asks for longer answers than allowed, while the upstream works and the seller pays for each.
#[tokio::test]
async fn a_payer_of_answers_that_are_too_long_is_locked_out_and_others_are_not() {
    let stage = Stage::with_answer().await;
    let other = bursar_tests::payer::Payer::random();
    let other = bursar_tests::proxy::Customer::of(&stage.proxy.url, other);
    let body = chat("hello");
    for n in 0..10 {
        stage.upstream.set_behavior(Behavior::Late(answer(&"x".repeat(9 << 20))));
        let header = stage.customer.sign(2, &body).await;
        let long =
            tokio::spawn(stage.customer.request(&body).header(header.name, &header.value).send());
        wait_until(|| stage.upstream.calls() == 2 * n + 1).await;
        stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
        assert_eq!(other.buy(2, &body).await.status(), 200);
        stage.upstream.open_gate(1);
        let response = long.await.unwrap().unwrap();
        assert_eq!(refusal(response).await, (502, "upstream_broken".to_owned()));
    }
    let response = stage.customer.buy(2, &body).await;
    assert_eq!(refusal(response).await, (429, "too_many_requests".to_owned()));
    assert_eq!(other.buy(2, &body).await.status(), 200);
}

/// Failed settlements after the answer count in the same way.
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
    // `retry-after` is the rest of ten minutes, so that a client which obeys it is not refused again and again.
    let seconds = response.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap();
    assert!((30..=600).contains(&seconds), "{seconds}");
    assert_eq!(refusal(response).await, (429, "too_many_requests".to_owned()));
    assert_eq!(stage.upstream.calls(), 10);
    let other = bursar_tests::payer::Payer::random();
    let other = bursar_tests::proxy::Customer::of(&stage.proxy.url, other);
    assert_eq!(other.buy(2, &chat("hello")).await.status(), 402);
}

/// Our own facilitator withdraws a payment whose transaction no node accepts.
#[tokio::test]
async fn a_facilitator_that_withdraws_payments_locks_no_payer_out() {
    let stage = Stage::with_answer().await;
    stage.facilitator.set_settle_reply(
        bursar_tests::scripted_facilitator::FacilitatorReply::Refuses("settlement_withdrawn"),
    );
    for _time in 0..12 {
        let response = stage.customer.buy(2, &chat("hello")).await;
        assert_eq!(refusal(response).await, (402, "settlement_failed".to_owned()));
    }
}

/// It is not the payer's fault if the upstream refuses this service's key.
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
    // The refusal does not count against the payer, however often it happens.
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
