//! npm clients: x402's wrappers of fetch in both versions, alone and beneath OpenAI's own client.

use alloy_primitives::U256;
use bursar_core::networks::ChainId;
use bursar_devnet::install::chain_or_skip;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, ProxyHome};
use bursar_tests::scripted_facilitator::{FacilitatorReply, ScriptedFacilitator};
use bursar_tests::sdk::Script;
use bursar_tests::upstream::{Behavior, Upstream, answer, frames};
use serde_json::{Value, json};

use crate::proxy_clients::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

const FETCH_V2: &str = "@x402/fetch";
const FETCH_V1: &str = "x402-fetch";
const WORDS: [&str; 3] = ["one", " two", " three"];

async fn chat_client(stage: &Stage, customer: &Customer) -> Script {
    Script::start("chat_client.mjs", &[&stage.base_url(), &customer.payer.key()]).await
}

fn order(stage: &Stage, by: &str, pays: Option<&str>, stream: bool) -> Value {
    let coin = stage.network().stablecoin.address;
    json!({
        "by": by, "pays": pays, "stream": stream, "text": "hello",
        "allowed": [{ "network": stage.network().caip2(), "asset": coin }],
    })
}

/// Buys an answer and a stream with each client.
async fn buys_on(chain: ChainId, clients: &[(&str, &str)]) {
    let Some(stage) = Stage::set_up(chain, Behavior::Whole(answer("hello world"))).await else {
        return;
    };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let payer = customer.payer.address();
    let mut chat_client = chat_client(&stage, &customer).await;
    for (by, pays) in clients {
        let case = format!("{by} with {pays}");
        stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
        let before = stage.earned().await;
        let reply = chat_client.ask(&order(&stage, by, Some(pays), false)).await;
        let content = match *by {
            "openai" => &reply["content"],
            _fetch => &reply["body"]["choices"][0]["message"]["content"],
        };
        assert_eq!(content, "hello world", "{case}: {reply}");
        let amount = stage.earned().await - before;
        assert!(amount > U256::ZERO);
        stage.assert_moved(&reply["receipt"], payer, amount).await;

        // Each piece arrives before the model produces the next.
        stage.upstream.set_behavior(Behavior::Pieces { pieces: frames(&WORDS), breaks: false });
        let before = stage.earned().await;
        let mut reply = chat_client.ask(&order(&stage, by, Some(pays), true)).await;
        for (n, word) in WORDS.iter().enumerate() {
            match *by {
                "openai" => assert_eq!(reply["piece"], *word, "{case}: {reply}"),
                _fetch => assert_eq!(reply["piece"], frames(&WORDS)[n], "{case}: {reply}"),
            }
            stage.upstream.open_gate(1);
            reply = chat_client.next().await;
        }
        stage.upstream.open_gate(1);
        while reply["over"] != json!(true) {
            reply = chat_client.next().await;
        }
        let amount = stage.earned().await - before;
        assert!(amount > U256::ZERO, "{reply}");
        stage.assert_moved(&reply["receipt"], payer, amount).await;
    }
    assert_eq!(stage.upstream.calls(), 2 * clients.len());
    let spent = U256::from(INITIAL_BALANCE) - stage.balance(payer).await;
    assert_eq!(stage.earned().await, spent);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_clients_of_both_versions_buy_answers_and_streams_on_base() {
    let clients =
        [("fetch", FETCH_V1), ("fetch", FETCH_V2), ("openai", FETCH_V1), ("openai", FETCH_V2)];
    buys_on(BASE, &clients).await;
}

/// Version 1 of the package has a fixed list of networks, without Robinhood Chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_clients_of_version_2_buy_answers_and_streams_on_robinhood() {
    buys_on(ROBINHOOD, &[("fetch", FETCH_V2), ("openai", FETCH_V2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_official_client_that_cannot_pay_reports_the_reason_and_stops_retrying() {
    let Some(stage) = Stage::set_up(BASE, Behavior::Whole(answer("hello world"))).await else {
        return;
    };
    let poor = stage.customer(0).await;
    let mut chat_client = chat_client(&stage, &poor).await;
    for pays in [None, Some(FETCH_V1), Some(FETCH_V2)] {
        let reply = chat_client.ask(&order(&stage, "openai", pays, false)).await;
        assert_eq!(reply["status"], 402, "{reply}");
        assert!(reply["error"].as_array().unwrap().contains(&json!("APIError")), "{reply}");
        // Requests: the list of models, the price, and the payment.
        assert_eq!(reply["sent"], if pays.is_some() { 3 } else { 2 }, "{reply}");
    }
    assert_eq!((stage.upstream.calls(), stage.earned().await), (0, U256::ZERO));
    stage.close().await;
}

/// The package of version 1 fails on a list with a network that it does not know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn official_clients_of_version_2_pay_on_a_known_network_among_several() {
    for networks in ["\"eip155:8453\", \"eip155:4663\"", "\"eip155:4663\", \"eip155:8453\""] {
        let does = Behavior::Whole(answer("hello world"));
        let selling = format!("network = [{networks}]");
        let Some(stage) = Stage::with(BASE, does, "", &selling).await else { return };
        let customer = stage.customer(INITIAL_BALANCE).await;
        let mut chat_client = chat_client(&stage, &customer).await;
        for by in ["fetch", "openai"] {
            let before = stage.earned().await;
            let mut order = order(&stage, by, Some(FETCH_V2), false);
            // The client has no list of additional assets that it may spend.
            order["allowed"] = Value::Null;
            let reply = chat_client.ask(&order).await;
            let amount = stage.earned().await - before;
            assert!(amount > U256::ZERO, "{by} of {networks}: {reply}");
            stage.assert_moved(&reply["receipt"], customer.payer.address(), amount).await;
        }
        stage.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_for_javascript_retries_only_what_costs_nothing() {
    if chain_or_skip().is_none() {
        return;
    }
    let upstream = Upstream::serve(Behavior::Whole(answer("hello world"))).await;
    let facilitator = ScriptedFacilitator::serve().await;
    let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
    let proxy = home.start().await;
    let key = Payer::random().key();
    let mut chat_client =
        Script::start("chat_client.mjs", &[&format!("{}/v1", proxy.url), &key]).await;
    let counts = || (facilitator.verify_calls(), upstream.calls(), facilitator.settle_calls());
    for pays in [FETCH_V1, FETCH_V2] {
        for stream in [false, true] {
            let order = json!({ "by": "openai", "pays": pays, "stream": stream, "text": "hello" });
            let before = counts();
            // The client cannot know whether money has moved, so it sends one paid request, after
            // those for models and price.
            facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
            let reply = chat_client.ask(&order).await;
            assert_eq!(
                (&reply["status"], &reply["code"]),
                (&json!(503), &json!("settlement_unknown"))
            );
            assert_eq!(reply["sent"], 3, "{reply}");
            facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
            let reply = chat_client.ask(&order).await;
            assert_eq!(
                (&reply["status"], &reply["code"]),
                (&json!(402), &json!("settlement_failed"))
            );
            assert_eq!(reply["receipt"]["errorReason"], "insufficient_balance", "{reply}");
            assert_eq!(reply["sent"], 3, "{reply}");
            assert_eq!(counts(), (before.0 + 2, before.1 + 2, before.2 + 2));
        }
    }
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_for_javascript_raises_an_error_where_a_stream_breaks() {
    let Some(stage) = Stage::set_up(BASE, Behavior::Nothing).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let mut chat_client = chat_client(&stage, &customer).await;
    for pays in [FETCH_V1, FETCH_V2] {
        let calls = stage.upstream.calls();
        stage
            .upstream
            .set_behavior(Behavior::Pieces { pieces: frames(&WORDS)[..2].to_vec(), breaks: true });
        // The stream breaks after both pieces: clients repeat a stream that breaks before its first event.
        let mut answer = chat_client.ask(&order(&stage, "openai", Some(pays), true)).await;
        for word in &WORDS[..2] {
            assert_eq!(answer["piece"], *word, "{answer}");
            stage.upstream.open_gate(1);
            answer = chat_client.next().await;
        }
        assert_eq!(
            (&answer["error"][0], &answer["code"]),
            (&json!("APIError"), &json!("stream_broken"))
        );
        assert_eq!((&answer["sent"], stage.upstream.calls()), (&json!(3), calls + 1));
    }
    stage.close().await;
}
