//! The effect of sales on the chain: each answer moves its price once, from payer to seller.

use alloy_primitives::U256;
use bursar_core::networks::ChainId;
use bursar_tests::proxy::{chat, receipt, streaming_chat};
use bursar_tests::upstream::{Behavior, answer, frames};
use serde_json::Value;

use crate::proxy_clients::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

async fn sells_on(chain: ChainId) {
    let Some(stage) = Stage::set_up(chain, Behavior::Whole(answer("hello world"))).await else {
        return;
    };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let mut calls = 0;
    for version in [1, 2] {
        // Another body has another price.
        for words in ["hello", "hello once more, and tell me a longer story this time"] {
            stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
            let before = stage.earned().await;
            let header = customer.sign(version, &chat(words)).await;
            let response = customer.send(&chat(words), &header).await;
            assert_eq!(response.status(), 200, "version {version}");
            let paid = receipt(&response);
            assert_eq!(response.json::<Value>().await.unwrap(), answer("hello world"));
            stage.assert_moved(&paid, customer.payer.address(), header.terms.amount).await;
            assert_eq!(stage.earned().await, before + header.terms.amount);

            stage.upstream.set_behavior(Behavior::Stream(frames(&["hello", " world"])));
            let header = customer.sign(version, &streaming_chat(words)).await;
            let response = customer.send(&streaming_chat(words), &header).await;
            let paid = receipt(&response);
            assert_eq!(response.text().await.unwrap(), frames(&["hello", " world"]).concat());
            stage.assert_moved(&paid, customer.payer.address(), header.terms.amount).await;
            calls += 2;
            assert_eq!(stage.upstream.calls(), calls);
        }
    }
    let spent = U256::from(INITIAL_BALANCE) - stage.balance(customer.payer.address()).await;
    assert_eq!(stage.earned().await, spent);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_moves_its_price_on_base_in_both_versions() {
    sells_on(BASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_moves_its_price_on_robinhood_in_both_versions() {
    sells_on(ROBINHOOD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_payment_many_times_at_once_moves_money_once() {
    for (chain, version) in [(BASE, 1), (ROBINHOOD, 2)] {
        let does = Behavior::Late(answer("hello world"));
        let Some(stage) = Stage::set_up(chain, does).await else { return };
        let customer = stage.customer(INITIAL_BALANCE).await;
        let header = customer.sign(version, &chat("hello")).await;
        let body = chat("hello");
        let all = futures::future::join_all((0..8).map(|_each| customer.send(&body, &header)));
        stage.upstream.open_gate(8);
        for response in all.await {
            stage
                .assert_moved(&receipt(&response), customer.payer.address(), header.terms.amount)
                .await;
            assert_eq!(response.json::<Value>().await.unwrap(), answer("hello world"));
        }
        assert_eq!((stage.upstream.calls(), stage.earned().await), (1, header.terms.amount));
        stage.close().await;
    }
}
