//! A facilitator that fails, is slow, is unreachable or lies: no charge without an answer,
//! and no answer without payment.

use bursar_tests::proxy::{chat, receipt, streaming_chat};
use bursar_tests::scripted_facilitator::FacilitatorReply;
use bursar_tests::upstream::{Behavior, answer, frames};
use serde_json::{Value, json};

use crate::proxy::stage::{Stage, refusal, status_and_json, wait_until};

fn whole_answer() -> Behavior {
    Behavior::Whole(answer("hello world"))
}

fn stream() -> Behavior {
    Behavior::Stream(frames(&["hello", " world"]))
}

#[tokio::test]
async fn a_failed_settlement_gives_no_content_and_keeps_the_answer_for_a_retry() {
    let stage = Stage::set_up(whole_answer()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
    let body = chat("hello");
    let header = stage.customer.sign(1, &body).await;
    for _again in 0..2 {
        let response = stage.customer.send(&body, &header).await;
        let paid = receipt(&response);
        assert_eq!(
            (&paid["success"], &paid["errorReason"]),
            (&json!(false), &json!("insufficient_balance"))
        );
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert!(response.headers().contains_key("x-payment-response"));
        assert!(!response.headers().contains_key("payment-required"));
        let (status, reply) = status_and_json(response).await;
        assert_eq!((status, &reply["error"]["code"]), (402, &json!("settlement_failed")));
        assert_eq!(reply["x402"]["charged"], "no");
        assert!(!reply.to_string().contains("hello world"));
    }
    // The answer is stored, so once the payer has the money, there is no second upstream call.
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(status_and_json(response).await, (200, answer("hello world")));
    assert_eq!(stage.counts(), (1, 1));
}

#[tokio::test]
async fn a_failed_settlement_of_a_stream_sends_no_chunk_and_frees_the_payment() {
    let stage = Stage::set_up(stream()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
    let body = streaming_chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(receipt(&response)["success"], json!(false));
    let (status, answer) = status_and_json(response).await;
    assert_eq!((status, &answer["error"]["code"]), (402, &json!("settlement_failed")));
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(response.text().await.unwrap(), frames(&["hello", " world"]).concat());
    assert_eq!(stage.counts(), (2, 1));
}

#[tokio::test]
async fn a_pending_settlement_is_delivered_and_followed_to_its_end() {
    {
        let stage = Stage::set_up(whole_answer()).await;
        stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
        let body = chat("hello");
        let header = stage.customer.sign(2, &body).await;
        let response = stage.customer.send(&body, &header).await;
        let paid = receipt(&response);
        assert_eq!(paid["errorReason"], "settlement_pending");
        assert_eq!(status_and_json(response).await, (200, answer("hello world")));
        // The proxy asks the facilitator once more, as official servers do.
        assert_eq!(stage.facilitator.settle_calls(), 2);
        // A settlement that may never come is not revenue.
        assert!(!stage.proxy.metrics().await.contains("revenue_atoms_total{"));
        // The proxy itself finds out how the settlement ended, even after a restart.
        stage.facilitator.set_settle_reply(FacilitatorReply::Good);
        let stage = stage.restart().await;
        wait_until(|| stage.facilitator.settled() > 0).await;
        loop {
            let response = stage.customer.send(&body, &header).await;
            let paid = receipt(&response);
            assert_eq!(status_and_json(response).await, (200, answer("hello world")));
            if paid["success"] == json!(true) {
                break;
            }
        }
        assert_eq!(stage.counts(), (1, 1));
    }
}

#[tokio::test]
async fn a_pending_settlement_of_a_no_longer_valid_payment_gives_no_content() {
    for (behavior, body) in [
        (Behavior::Late(answer("hello world")), chat("hello")),
        (Behavior::LateStream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        for sent in [true, false] {
            let stage = Stage::set_up(behavior.clone()).await;
            stage.facilitator.set_settle_reply(FacilitatorReply::Pending(sent));
            let header = stage.customer.sign(2, &body).await;
            let asking = stage.customer.request(&body).header(header.name, &header.value).send();
            let asking = tokio::spawn(asking);
            while stage.upstream.calls() == 0 {
                tokio::task::yield_now().await;
            }
            stage.facilitator.set_verify_reply(FacilitatorReply::Refuses("insufficient_balance"));
            stage.upstream.open_gate(1);
            let (status, reply) = status_and_json(asking.await.unwrap().unwrap()).await;
            assert_eq!((status, &reply["error"]["code"]), (503, &json!("settlement_unknown")));
            assert!(!reply.to_string().contains("world"));
            // The proxy asks to settle once more: the money could have moved meanwhile, which would also explain why
            // the payment no longer verifies.
            assert_eq!(stage.facilitator.settle_calls(), if sent { 3 } else { 2 });
            stage.facilitator.set_settle_reply(FacilitatorReply::Good);
            stage.upstream.open_gate(1);
            let response = stage.customer.send(&body, &header).await;
            assert_eq!(receipt(&response)["success"], json!(true));
            assert!(response.text().await.unwrap().contains("world"));
            assert_eq!(stage.facilitator.settled(), 1);
        }
    }
}

#[tokio::test]
async fn an_answer_delivered_for_a_settlement_that_failed_later_is_counted() {
    let stage = Stage::set_up(whole_answer()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    assert_eq!(stage.customer.buy(2, &chat("hello")).await.status(), 200);
    stage
        .facilitator
        .set_settle_reply(FacilitatorReply::Refuses("invalid_exact_evm_transaction_failed"));
    let stage = stage.restart().await;
    stage.wait_for_metric("unpaid_answers_total 1").await;
}

#[tokio::test]
async fn an_unknown_settlement_gives_no_content_and_a_repeat_is_charged_once() {
    for reply in [
        FacilitatorReply::SettlesThenFails,
        FacilitatorReply::Text(500, "{}".to_owned()),
        // Without a transaction nothing is in flight yet.
        FacilitatorReply::Pending(false),
        FacilitatorReply::Text(200, "{\"success\":true}".to_owned()),
        // The first success is for another network, the second for another payer.
        FacilitatorReply::Text(200, success("eip155:1", None)),
        FacilitatorReply::Text(
            200,
            success("eip155:8453", Some("0x000000000000000000000000000000000000dEaD")),
        ),
        FacilitatorReply::Text(200, "nonsense".to_owned()),
        FacilitatorReply::Text(200, "x".repeat(100_000)),
    ] {
        for (behavior, body) in
            [(whole_answer(), chat("hello")), (stream(), streaming_chat("hello"))]
        {
            let stage = Stage::set_up(behavior).await;
            stage.facilitator.set_settle_reply(reply.clone());
            let header = stage.customer.sign(2, &body).await;
            let response = stage.customer.send(&body, &header).await;
            assert_eq!(response.headers()["x-should-retry"], "false");
            let (status, answer) = status_and_json(response).await;
            assert_eq!(
                (status, &answer["error"]["code"]),
                (503, &json!("settlement_unknown")),
                "{reply:?}"
            );
            assert_eq!(answer["x402"]["charged"], "unknown");
            assert!(!answer.to_string().contains("world"));
            stage.facilitator.set_settle_reply(FacilitatorReply::Good);
            let response = stage.customer.send(&body, &header).await;
            assert_eq!(receipt(&response)["success"], json!(true));
            assert!(response.text().await.unwrap().contains("world"));
            assert_eq!(stage.facilitator.settled(), 1);
        }
    }
}

/// The facilitator may have received the request, so only the customer decides whether to ask again.
#[tokio::test]
async fn a_settle_request_whose_response_was_lost_is_not_retried_at_once() {
    let stage = Stage::set_up(whole_answer()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    for calls in [1, 2] {
        assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
        assert_eq!(stage.facilitator.settle_calls(), calls);
    }
}

/// Two sellers have one address, and the payment bought something from the other seller.
#[tokio::test]
async fn a_payment_settled_for_another_seller_buys_nothing() {
    let stage = Stage::set_up(whole_answer()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Repeated);
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(receipt(&response)["errorReason"], "duplicate_settlement");
    assert_eq!(refusal(response).await, (402, "settlement_failed".to_owned()));
}

/// The first request may have moved the money, so a refusal of the second proves nothing.
#[tokio::test]
async fn after_an_unknown_settlement_a_refusal_is_not_trusted() {
    for (behavior, body) in [(whole_answer(), chat("hello")), (stream(), streaming_chat("hello"))] {
        let stage = Stage::set_up(behavior).await;
        stage.facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
        let header = stage.customer.sign(2, &body).await;
        assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
        for reply in [
            FacilitatorReply::Refuses("invalid_exact_evm_nonce_already_used"),
            FacilitatorReply::Refuses("duplicate_settlement"),
            FacilitatorReply::Refuses("unexpected_settle_error"),
            FacilitatorReply::Text(429, "{}".to_owned()),
            FacilitatorReply::Pending(false),
        ] {
            stage.facilitator.set_settle_reply(reply.clone());
            let response = stage.customer.send(&body, &header).await;
            assert_eq!(response.headers()["x-should-retry"], "false");
            let (status, answer) = status_and_json(response).await;
            assert_eq!(
                (status, &answer["error"]["code"]),
                (503, &json!("settlement_unknown")),
                "{reply:?}"
            );
            assert_eq!(answer["x402"]["charged"], "unknown");
        }
        stage.facilitator.set_settle_reply(FacilitatorReply::Good);
        let response = stage.customer.send(&body, &header).await;
        assert!(response.text().await.unwrap().contains("world"));
        assert_eq!(stage.facilitator.settled(), 1);
        assert!(stage.proxy.metrics().await.contains("revenue_atoms_total{"));
    }
}

fn success(network: &str, payer: Option<&str>) -> String {
    let hash = format!("0x{}", "cd".repeat(32));
    json!({ "success": true, "transaction": hash, "network": network, "payer": payer }).to_string()
}

#[tokio::test]
async fn without_a_facilitator_verdict_nothing_is_charged() {
    let stage = Stage::set_up(whole_answer()).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    for reply in [
        FacilitatorReply::Text(500, "{}".to_owned()),
        FacilitatorReply::Text(
            503,
            "{\"isValid\":false,\"invalidReason\":\"unexpected_verify_error\"}".to_owned(),
        ),
        FacilitatorReply::Text(200, "[]".to_owned()),
        FacilitatorReply::Text(
            200,
            "{\"isValid\":true,\"payer\":\"0x000000000000000000000000000000000000dEaD\"}"
                .to_owned(),
        ),
        FacilitatorReply::Text(302, "{\"isValid\":true}".to_owned()),
    ] {
        stage.facilitator.set_verify_reply(reply.clone());
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(
            refusal(response).await,
            (503, "facilitator_unavailable".to_owned()),
            "{reply:?}"
        );
    }
    assert_eq!(stage.counts(), (0, 0));
    stage.facilitator.set_verify_reply(FacilitatorReply::Good);
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
}

#[tokio::test]
async fn an_unreachable_facilitator_is_reported_and_the_payment_stays_valid() {
    let mut stage = Stage::set_up(whole_answer()).await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let Stage { proxy, home, .. } = stage;
    proxy.stop().await;
    let settings = std::fs::read_to_string(home.settings()).unwrap();
    let away = settings.replace(&stage.facilitator.url, "http://127.0.0.1:9");
    std::fs::write(home.settings(), away).unwrap();
    let proxy = home.start().await;
    stage.customer.url = proxy.url.clone();
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(refusal(response).await, (503, "facilitator_unavailable".to_owned()));
    assert_eq!(stage.upstream.calls(), 0);
    proxy.stop().await;
    std::fs::write(home.settings(), settings).unwrap();
    let proxy = home.start().await;
    stage.customer.url = proxy.url.clone();
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(status_and_json(response).await, (200, answer("hello world")));
    proxy.stop().await;
}

#[tokio::test]
async fn a_busy_facilitator_is_retried_and_its_refusal_charges_nothing() {
    let stage = Stage::set_up(whole_answer()).await;
    stage
        .facilitator
        .set_settle_reply(FacilitatorReply::Text(429, "{\"error\":\"slowly\"}".to_owned()));
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let (status, reply) = status_and_json(stage.customer.send(&body, &header).await).await;
    assert_eq!((status, &reply["error"]["code"]), (503, &json!("facilitator_unavailable")));
    assert_eq!(reply["x402"]["charged"], "no");
    assert_eq!(stage.facilitator.settle_calls(), 3);
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(response.json::<Value>().await.unwrap(), answer("hello world"));
    assert_eq!(stage.counts(), (1, 1));
}
