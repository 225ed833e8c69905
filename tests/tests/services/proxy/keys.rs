//! The idempotency key of a sale, and how the proxy interprets the facilitator's answers to it.

use std::collections::BTreeSet;

use bursar_tests::proxy::{chat, receipt, streaming_chat};
use bursar_tests::scripted_facilitator::FacilitatorReply;
use bursar_tests::upstream::{Behavior, answer, frames};
use serde_json::json;

use crate::proxy::stage::{Stage, refusal, status_and_json, wait_until};

/// Returns the idempotency keys of all facilitator requests so far; each request must have one.
fn keys(stage: &Stage) -> Vec<String> {
    stage
        .facilitator
        .idempotency_keys()
        .into_iter()
        .map(|(_endpoint, key)| key.expect("a key"))
        .collect()
}

#[tokio::test]
async fn all_facilitator_requests_about_a_sale_have_one_random_key() {
    let stage = Stage::set_up(Behavior::Whole(answer("hello world"))).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    // The next process reads the key from disk.
    let stage = stage.restart().await;
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
    let so_far = stage.facilitator.settle_calls();
    // The proxy itself continues to query the settlement, with the same key.
    wait_until(|| stage.facilitator.settle_calls() > so_far).await;
    let all = keys(&stage);
    let endpoints: BTreeSet<_> =
        stage.facilitator.idempotency_keys().into_iter().map(|(endpoint, _)| endpoint).collect();
    assert_eq!(endpoints, BTreeSet::from(["settle", "verify"]));
    assert!(all.len() >= 5 && all.iter().all(|key| *key == all[0]), "{all:?}");
    assert!(all[0].len() >= 32 && all[0].bytes().all(|byte| byte.is_ascii_hexdigit()));
    // Another sale has another key.
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    assert_eq!(stage.customer.buy(2, &body).await.status(), 200);
    assert_eq!(keys(&stage).into_iter().collect::<BTreeSet<_>>().len(), 2);
}

/// A copy of a payment has its nonce, signature and body, and must not lead to its key.
#[tokio::test]
async fn the_key_is_not_derived_from_the_payment() {
    let body = chat("hello");
    let mut all = BTreeSet::new();
    let first = Stage::with_answer().await;
    let header = first.customer.sign(2, &body).await;
    for stage in [first, Stage::with_answer().await] {
        assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
        all.extend(keys(&stage));
    }
    assert_eq!(all.len(), 2, "the same payment, sold by two");
}

#[tokio::test]
async fn a_payment_settled_for_another_caller_buys_nothing() {
    for (behavior, body) in [
        (Behavior::Whole(answer("hello world")), chat("hello")),
        (Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        // Tests a first request, and requests after one whose answer was lost.
        for first in
            [None, Some(FacilitatorReply::SettlesThenFails), Some(FacilitatorReply::Pending(false))]
        {
            let stage = Stage::set_up(behavior.clone()).await;
            let header = stage.customer.sign(2, &body).await;
            if let Some(reply) = first {
                stage.facilitator.set_settle_reply(reply);
                assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
            }
            stage.facilitator.set_settle_reply(FacilitatorReply::DuplicateSettlement);
            let response = stage.customer.send(&body, &header).await;
            let paid = receipt(&response);
            assert_eq!(paid["success"], json!(false));
            assert!(paid["errorMessage"].as_str().unwrap().contains("0xabab"), "{paid}");
            let (status, reply) = status_and_json(response).await;
            assert_eq!((status, &reply["error"]["code"]), (402, &json!("settlement_failed")));
            assert!(!reply.to_string().contains("world"));
        }
    }
}

/// An answer that was delivered for a settlement of ours stays settled.
#[tokio::test]
async fn a_settled_sale_stays_settled_despite_later_refusals() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    assert_eq!(stage.customer.send(&body, &header).await.status(), 200);
    stage.facilitator.set_settle_reply(FacilitatorReply::DuplicateSettlement);
    let stage = stage.restart().await;
    let again = stage.customer.send(&body, &header).await;
    assert_eq!(receipt(&again)["success"], json!(true));
    assert_eq!(status_and_json(again).await, (200, answer("hello world")));
}

/// Another seller with the same address settled the payment between two of our requests.
///
/// So the facilitator marks its answer as a repeat.
#[tokio::test]
async fn a_repeated_success_after_a_refusal_belongs_to_another_seller() {
    let stage = Stage::with_answer().await;
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
    assert_eq!(stage.customer.send(&body, &header).await.status(), 402);
    stage.facilitator.set_settle_reply(FacilitatorReply::Repeated);
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(receipt(&response)["errorReason"], "duplicate_settlement");
    assert_eq!(refusal(response).await, (402, "settlement_failed".to_owned()));
}

#[tokio::test]
async fn a_facilitator_without_gas_is_not_the_payers_fault() {
    for reason in ["facilitator_out_of_gas", "gas_budget_spent", "gas_too_high"] {
        let stage = Stage::with_answer().await;
        let body = chat("hello");
        let header = stage.customer.sign(2, &body).await;
        stage.facilitator.set_verify_reply(FacilitatorReply::Refuses(reason));
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(refusal(response).await, (503, "facilitator_unavailable".to_owned()), "no 402");
        stage.facilitator.set_verify_reply(FacilitatorReply::Good);
        stage.facilitator.set_settle_reply(FacilitatorReply::Refuses(reason));
        // Repeats more often than a payer's own failures are tolerated.
        for _time in 0..12 {
            let (status, reply) = status_and_json(stage.customer.send(&body, &header).await).await;
            assert_eq!((status, &reply["error"]["code"]), (503, &json!("facilitator_unavailable")));
            assert_eq!(reply["x402"]["charged"], "no");
        }
        // After a lost answer, such a refusal proves nothing about the first request.
        stage.facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
        assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
        stage.facilitator.set_settle_reply(FacilitatorReply::Refuses(reason));
        let (_, text) = status_and_json(stage.customer.send(&body, &header).await).await;
        assert_eq!(text["error"]["code"], "settlement_unknown");
        stage.facilitator.set_settle_reply(FacilitatorReply::Good);
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(status_and_json(response).await, (200, answer("hello world")));
        assert_eq!(stage.counts(), (1, 1));
        assert_eq!(stage.customer.buy(2, &chat("another")).await.status(), 200, "no penalties");
    }
}

/// A payment that the facilitator will not settle causes no upstream call, however often it is sent.
#[tokio::test]
async fn t_54_a_payment_without_gas_to_settle_it_causes_no_upstream_call() {
    for (behavior, body) in [
        (Behavior::Whole(answer("hello world")), chat("hello")),
        (Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        for reason in ["facilitator_out_of_gas", "gas_budget_spent", "gas_too_high"] {
            let stage = Stage::set_up(behavior.clone()).await;
            stage.facilitator.set_verify_reply(FacilitatorReply::Refuses(reason));
            let header = stage.customer.sign(2, &body).await;
            for _time in 0..3 {
                let response = stage.customer.send(&body, &header).await;
                assert_eq!(refusal(response).await, (503, "facilitator_unavailable".to_owned()));
            }
            assert_eq!(stage.customer.buy(2, &body).await.status(), 503);
            assert_eq!(stage.counts(), (0, 0), "{reason}");
            // Once the facilitator can settle it, the same payment verifies and causes one upstream call.
            stage.facilitator.set_verify_reply(FacilitatorReply::Good);
            assert_eq!(stage.customer.send(&body, &header).await.status(), 200, "{reason}");
            assert_eq!(stage.counts(), (1, 1), "{reason}");
        }
    }
}
