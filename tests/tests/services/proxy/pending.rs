//! Pending settlements: which of them count, and how much may be unpaid at a time.

use bursar_tests::node::{FakeNode, KnownTransactions};
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, chat, receipt, streaming_chat};
use bursar_tests::scripted_facilitator::FacilitatorReply;
use bursar_tests::upstream::{Behavior, answer, frames};
use futures::future::join_all;
use serde_json::json;

use crate::proxy::stage::{Stage, refusal, status_and_json, wait_until};

fn whole_answer() -> Behavior {
    Behavior::Whole(answer("hello world"))
}

#[tokio::test]
async fn a_pending_settlement_whose_transaction_no_node_knows_gives_no_content() {
    for (behavior, body) in [
        (whole_answer(), chat("hello")),
        (Behavior::Stream(frames(&["hello", " world"])), streaming_chat("hello")),
    ] {
        for knows in [KnownTransactions::Nothing, KnownTransactions::Broken] {
            let stage = Stage::set_up(behavior.clone()).await;
            stage.node.set_known(knows);
            stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
            let header = stage.customer.sign(2, &body).await;
            let (status, answer) = status_and_json(stage.customer.send(&body, &header).await).await;
            assert_eq!((status, &answer["error"]["code"]), (503, &json!("settlement_unknown")));
            assert_eq!(answer["x402"]["charged"], "unknown");
            assert!(!answer.to_string().contains("world"));
            assert!(stage.node.lookups() > 0);
            // The customer's next request makes the proxy ask the node again. Once the node knows the
            // transaction, the settlement counts.
            stage.node.set_known(KnownTransactions::Everything);
            let response = stage.customer.send(&body, &header).await;
            assert_eq!(receipt(&response)["errorReason"], "settlement_pending");
            assert!(response.text().await.unwrap().contains("world"));
        }
    }
}

/// The facilitator is asked twice before an answer is sent, and may name another transaction each time.
#[tokio::test]
async fn each_transaction_that_a_pending_settlement_names_has_to_be_known() {
    let stage = Stage::set_up(whole_answer()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    stage.node.set_known(KnownTransactions::Times(1));
    let body = chat("hello");
    let header = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(refusal(response).await, (503, "settlement_unknown".to_owned()));
    assert_eq!(stage.facilitator.settle_calls(), 2);
    stage.node.set_known(KnownTransactions::Times(2));
    let response = stage.customer.send(&body, &header).await;
    assert_eq!(status_and_json(response).await, (200, answer("hello world")));
    assert_eq!(stage.upstream.calls(), 1);
}

#[tokio::test]
async fn without_a_node_or_with_one_of_another_chain_no_pending_settlement_counts() {
    let other = FakeNode::on_chain(1).await;
    for rpc in ["rpc = \"off\"".to_owned(), format!("rpc = \"{}\"", other.url)] {
        let stage = Stage::with(whole_answer(), &rpc).await;
        stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
        let body = chat("hello");
        let header = stage.customer.sign(2, &body).await;
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(refusal(response).await, (503, "settlement_unknown".to_owned()), "{rpc}");
        assert_eq!((other.lookups(), stage.node.lookups()), (0, 0));
        // A settled payment needs no node, and the stored answer is returned.
        stage.facilitator.set_settle_reply(FacilitatorReply::Good);
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(status_and_json(response).await, (200, answer("hello world")));
        assert_eq!(stage.counts(), (1, 1));
    }
}

#[tokio::test]
async fn a_settled_payment_asks_no_node() {
    let stage = Stage::set_up(whole_answer()).await;
    assert_eq!(stage.customer.buy(2, &chat("hello")).await.status(), 200);
    assert_eq!(stage.node.lookups(), 0);
}

/// Returns the price of one answer to these requests, in smallest units of USDC.
async fn price(stage: &Stage) -> u64 {
    let challenge = stage.customer.ask(&chat("hello")).await;
    challenge.v1["accepts"][0]["maxAmountRequired"].as_str().unwrap().parse().unwrap()
}

fn usd(units: u64) -> String {
    format!("0.{units:06}")
}

#[tokio::test]
async fn a_payer_owes_no_more_than_the_bound_and_may_buy_again_when_it_is_paid() {
    let price = price(&Stage::set_up(whole_answer()).await).await;
    // The limit allows two answers, and is one unit short of three.
    let bound = format!("max_unpaid_usd_per_payer = \"{}\"", usd(3 * price - 1));
    let stage = Stage::with(whole_answer(), &bound).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    let body = chat("hello");
    for _time in 0..2 {
        assert_eq!(stage.customer.buy(2, &body).await.status(), 200);
    }
    let third = stage.customer.sign(2, &body).await;
    let response = stage.customer.send(&body, &third).await;
    assert_eq!(response.headers()["retry-after"], "5");
    assert_eq!(response.headers()["x-should-retry"], "false");
    let (status, answer) = status_and_json(response).await;
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("unpaid_limit")));
    assert_eq!(answer["x402"]["charged"], "no");
    assert_eq!(stage.upstream.calls(), 2, "it is refused before the upstream is asked");
    // Another payer is not affected.
    let other = Customer::of(&stage.proxy.url, Payer::random());
    assert_eq!(other.buy(2, &body).await.status(), 200);
    // The next process restores the unpaid amounts.
    let stage = stage.restart().await;
    let response = stage.customer.send(&body, &third).await;
    assert_eq!(refusal(response).await, (429, "unpaid_limit".to_owned()));
    // Once the earlier sales are settled, the refused payment buys its answer.
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    wait_until(|| stage.facilitator.settled() == 3).await;
    loop {
        let response = stage.customer.send(&body, &third).await;
        if response.status() == 200 {
            break;
        }
        assert_eq!(refusal(response).await, (429, "unpaid_limit".to_owned()));
    }
    assert_eq!(stage.facilitator.settled(), 4);
}

#[tokio::test]
async fn simultaneous_requests_do_not_exceed_the_bound_of_all_payers() {
    let price = price(&Stage::set_up(whole_answer()).await).await;
    let bound = format!("max_unpaid_usd = \"{}\"", usd(5 * price));
    let stage = Stage::with(Behavior::Late(answer("late")), &bound).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    let body = chat("hello");
    let customers: Vec<_> =
        (0..20).map(|_n| Customer::of(&stage.proxy.url, Payer::random())).collect();
    let headers = join_all(customers.iter().map(|customer| customer.sign(2, &body))).await;
    // Admitted requests wait in the upstream until all others are refused.
    let sent =
        customers.iter().zip(&headers).map(|(customer, header)| customer.send(&body, header));
    let open = async {
        let refused = "chats_total{result=\"unpaid_limit\"} 15";
        stage.wait_for_metric(refused).await;
        stage.upstream.open_gate(20);
    };
    let (all, ()) = tokio::join!(join_all(sent), open);
    let mut delivered = 0;
    for response in all {
        if response.status() == 200 {
            delivered += 1;
        } else {
            assert_eq!(refusal(response).await, (429, "unpaid_limit".to_owned()));
        }
    }
    assert_eq!((delivered, stage.upstream.calls()), (5, 5));
}

/// A facilitator that is slow about some sales does not delay the others, and is not flooded.
#[tokio::test]
async fn at_most_eight_pending_sales_are_reconciled_at_a_time() {
    let stage = Stage::set_up(whole_answer()).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    for _each in 0..10 {
        assert_eq!(stage.customer.buy(2, &chat("hello")).await.status(), 200);
    }
    let Stage { proxy, facilitator, home, .. } = stage;
    proxy.stop().await;
    facilitator.set_settle_reply(FacilitatorReply::Late);
    let before = facilitator.settle_calls();
    let proxy = home.start().await;
    wait_until(|| facilitator.settle_calls() == before + 8).await;
    assert_eq!(proxy.running.seller.deps().ledger.held_count(), 8);
    // Each sale that ends makes room for another one.
    facilitator.open_gate(1);
    wait_until(|| facilitator.settle_calls() == before + 9).await;
    facilitator.open_gate(9);
    wait_until(|| facilitator.settled() == 10).await;
    proxy.stop().await;
}

/// A sale whose transaction no node knew at first is delivered later, within the bound.
#[tokio::test]
async fn repeated_requests_do_not_exceed_the_unpaid_limit() {
    let price = price(&Stage::set_up(whole_answer()).await).await;
    let bound = format!("max_unpaid_usd_per_payer = \"{}\"", usd(2 * price));
    let stage = Stage::with(whole_answer(), &bound).await;
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(false));
    let body = chat("hello");
    let mut headers = Vec::new();
    for _each in 0..4 {
        let header = stage.customer.sign(2, &body).await;
        assert_eq!(stage.customer.send(&body, &header).await.status(), 503);
        headers.push(header);
    }
    stage.facilitator.set_settle_reply(FacilitatorReply::Pending(true));
    let all = join_all(headers.iter().map(|header| stage.customer.send(&body, header))).await;
    let statuses = |all: &[reqwest::Response]| {
        let mut all: Vec<_> = all.iter().map(|response| response.status().as_u16()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(statuses(&all), [200, 200, 429, 429]);
    for response in all.into_iter().filter(|response| response.status() == 429) {
        let (_, answer) = status_and_json(response).await;
        // The money may have moved, because the facilitator was asked.
        assert_eq!(answer["x402"]["charged"], "unknown");
        assert!(!answer["error"]["message"].as_str().unwrap().contains("nothing was charged"));
    }
    // A settled sale does not count as unpaid.
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    let all = join_all(headers.iter().map(|header| stage.customer.send(&body, header))).await;
    assert_eq!(statuses(&all), [200; 4]);
    assert_eq!(stage.upstream.calls(), 4);
}

#[tokio::test]
async fn an_upstream_that_fails_leaves_no_debt() {
    let price = price(&Stage::set_up(whole_answer()).await).await;
    let bound = format!("max_unpaid_usd_per_payer = \"{}\"", usd(price));
    let stage = Stage::with(Behavior::Status(500, "{}".to_owned()), &bound).await;
    let body = chat("hello");
    for _time in 0..3 {
        assert_eq!(stage.customer.buy(2, &body).await.status(), 500);
    }
    stage.upstream.set_behavior(whole_answer());
    stage.facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
    assert_eq!(stage.customer.buy(2, &body).await.status(), 402);
    stage.facilitator.set_verify_reply(FacilitatorReply::Refuses("insufficient_balance"));
    assert_eq!(stage.customer.buy(2, &body).await.status(), 402);
    stage.facilitator.set_verify_reply(FacilitatorReply::Good);
    stage.facilitator.set_settle_reply(FacilitatorReply::Good);
    for _time in 0..3 {
        assert_eq!(stage.customer.buy(2, &body).await.status(), 200);
    }
}
