//! OpenAI's own client for Python, with the payments of PyPI's x402.
//!
//! It lists models, pays, reads answers and streams, and automatically repeats only requests that cost nothing.

use alloy_primitives::U256;
use bursar_devnet::install::chain_or_skip;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, ProxyHome, chat};
use bursar_tests::scripted_facilitator::{FacilitatorReply, ScriptedFacilitator};
use bursar_tests::sdk::Script;
use bursar_tests::upstream::{Behavior, Upstream, answer, frames};
use serde_json::{Value, json};

use crate::proxy_clients::stage::{BASE, INITIAL_BALANCE, Stage};

/// The two clients: the synchronous one pays by a few lines on top of x402, the asynchronous one by x402's transport.
const CLIENTS: [&str; 2] = ["sync", "async"];
const REFUSAL_BODY: &str = "{\"error\":{\"message\":\"slowly\",\"code\":\"rate_limit_exceeded\"}}";

fn whole_answer() -> Behavior {
    Behavior::Whole(answer("hello world"))
}

async fn chat_client(base: &str, payer: &Payer) -> Script {
    Script::start_python("chat_client.py", &[base, &payer.key()]).await
}

fn order(ask: &str, by: &str) -> Value {
    json!({ "ask": ask, "by": by, "text": "hello" })
}

/// Returns an order that signs nothing but sends this payment.
fn request_with_payment(ask: &str, header: (&str, &str)) -> Value {
    json!({ "ask": ask, "by": "unpaid", "text": "hello", "header": { header.0: header.1 } })
}

/// Returns whether the client raised an exception of that class.
fn has_class(answer: &Value, class: &str) -> bool {
    answer["error"].as_array().is_some_and(|classes| classes.contains(&json!(class)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_clients_list_models_and_see_the_price_before_they_pay() {
    let Some(stage) = Stage::set_up(BASE, whole_answer()).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let mut chat_client = chat_client(&stage.base_url(), &customer.payer).await;
    for by in ["unpaid", "sync", "async"] {
        let answer = chat_client.ask(&order("models", by)).await;
        assert_eq!(
            (&answer["type"], &answer["models"]),
            (&json!("Model"), &json!(["toy"])),
            "{answer}"
        );
        assert_eq!((&answer["sent"], &answer["signed"]), (&json!(1), &json!(0)));
    }
    for ask in ["chat", "stream"] {
        let answer = chat_client.ask(&order(ask, "unpaid")).await;
        assert!(has_class(&answer, "APIStatusError"), "{answer}");
        assert_eq!((&answer["status"], &answer["sent"]), (&json!(402), &json!(1)));
        let body = &answer["body"];
        assert_eq!(body["x402Version"], 1);
        assert_eq!(body["accepts"][0]["scheme"], "exact");
        assert_eq!(body["price"]["model"], "toy");
        assert!(body["price"]["usd"].is_string(), "{body}");
    }
    assert_eq!(stage.upstream.calls(), 0);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_clients_pay_for_answers_and_streams_and_read_both() {
    let Some(stage) = Stage::set_up(BASE, whole_answer()).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let payer = customer.payer.address();
    let mut chat_client = chat_client(&stage.base_url(), &customer.payer).await;
    for by in CLIENTS {
        stage.upstream.set_behavior(whole_answer());
        let before = stage.earned().await;
        let answer = chat_client.ask(&order("chat", by)).await;
        assert_eq!(answer["type"], "ChatCompletion", "{by}: {answer}");
        assert_eq!((&answer["content"], &answer["tokens"]), (&json!("hello world"), &json!(9)));
        assert_eq!((&answer["signed"], &answer["sent"]), (&json!(1), &json!(2)));
        let amount = stage.earned().await - before;
        stage.assert_moved(&answer["receipt"], payer, amount).await;
        let usd: f64 = answer["price"].as_str().expect("a price").parse().expect("dollars");
        assert_eq!(amount, U256::from((usd * 1e6).round()));

        // The first piece arrives before the model produces the second.
        let pieces = frames(&["one", " two", " three"]);
        stage.upstream.set_behavior(Behavior::Pieces { pieces: pieces.clone(), breaks: false });
        let before = stage.earned().await;
        let mut answer = chat_client.ask(&order("stream", by)).await;
        for word in ["one", " two", " three"] {
            assert_eq!(
                (&answer["type"], &answer["piece"]),
                (&json!("ChatCompletionChunk"), &json!(word))
            );
            stage.upstream.open_gate(1);
            answer = chat_client.next().await;
        }
        assert_eq!(answer["piece"], Value::Null, "the piece that says why it ends");
        stage.upstream.open_gate(1);
        let answer = chat_client.next().await;
        assert_eq!((&answer["over"], &answer["signed"]), (&json!(true), &json!(1)), "{answer}");
        stage.assert_moved(&answer["receipt"], payer, stage.earned().await - before).await;
    }
    assert_eq!(stage.upstream.calls(), 4);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_openai_client_that_is_cut_off_within_a_stream_raises_an_error() {
    let Some(stage) = Stage::set_up(BASE, whole_answer()).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let mut chat_client = chat_client(&stage.base_url(), &customer.payer).await;
    for (n, by) in CLIENTS.into_iter().enumerate() {
        let pieces = frames(&["one", " two", " three"])[..2].to_vec();
        stage.upstream.set_behavior(Behavior::Pieces { pieces, breaks: true });
        // The stream breaks after both pieces: clients repeat a stream that breaks before its first event.
        let mut answer = chat_client.ask(&order("stream", by)).await;
        for word in ["one", " two"] {
            assert_eq!(answer["piece"], word, "{answer}");
            stage.upstream.open_gate(1);
            answer = chat_client.next().await;
        }
        assert_eq!(answer["error"][0], "APIError", "{answer}");
        assert_eq!(answer["code"], "stream_broken");
        // The client does not repeat the request, because a repeat would be another payment.
        assert_eq!((&answer["signed"], &answer["sent"]), (&json!(1), &json!(2)));
        assert_eq!(stage.upstream.calls(), n + 1);
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_refused_by_the_model_is_retried_by_an_openai_client_and_charged_once() {
    let Some(stage) = Stage::set_up(BASE, whole_answer()).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let payer = customer.payer.address();
    let mut chat_client = chat_client(&stage.base_url(), &customer.payer).await;
    for (n, (by, signed, sent)) in [
        // One payment serves for both the refusal and the answer.
        ("sync", 1, 3),
        // x402's transport signs again for every 402, so the first payment is never used.
        ("async", 2, 4),
    ]
    .into_iter()
    .enumerate()
    {
        stage.upstream.set_behavior(Behavior::Then(
            Box::new(Behavior::Status(429, REFUSAL_BODY.to_owned())),
            Box::new(whole_answer()),
        ));
        let before = stage.earned().await;
        let answer = chat_client.ask(&order("chat", by)).await;
        assert_eq!(answer["content"], "hello world", "{by}: {answer}");
        assert_eq!((&answer["signed"], &answer["sent"]), (&json!(signed), &json!(sent)), "{by}");
        stage.assert_moved(&answer["receipt"], payer, stage.earned().await - before).await;
        assert_eq!(stage.upstream.calls(), 2 * (n + 1));
    }
    // The unused payment has moved nothing.
    let spent = U256::from(INITIAL_BALANCE) - stage.balance(payer).await;
    assert_eq!(stage.earned().await, spent);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_spent_on_another_request_is_refused_and_not_sent_again() {
    let Some(stage) = Stage::set_up(BASE, whole_answer()).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let mut chat_client = chat_client(&stage.base_url(), &customer.payer).await;
    let header = customer.sign(2, &chat("something else")).await;
    assert_eq!(customer.send(&chat("something else"), &header).await.status(), 200);
    let answer = chat_client.ask(&request_with_payment("chat", (header.name, &header.value))).await;
    assert!(has_class(&answer, "ConflictError"), "{answer}");
    assert_eq!((&answer["status"], &answer["code"]), (&json!(409), &json!("payment_spent")));
    assert_eq!(answer["sent"], 1);
    assert_eq!((stage.upstream.calls(), stage.earned().await), (1, header.terms.amount));
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_clients_retry_only_what_costs_nothing() {
    if chain_or_skip().is_none() {
        return;
    }
    let upstream = Upstream::serve(whole_answer()).await;
    let facilitator = ScriptedFacilitator::serve().await;
    let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
    let proxy = home.start().await;
    let customer = Customer::of(&proxy.url, Payer::random());
    let mut chat_client = chat_client(&format!("{}/v1", proxy.url), &customer.payer).await;
    let counts = || (facilitator.verify_calls(), upstream.calls(), facilitator.settle_calls());
    for by in CLIENTS {
        for ask in ["chat", "stream"] {
            // The client cannot know whether money has moved, so it makes one payment and one paid request.
            facilitator.set_settle_reply(FacilitatorReply::SettlesThenFails);
            let before = counts();
            let answer = chat_client.ask(&order(ask, by)).await;
            assert!(has_class(&answer, "InternalServerError"), "{answer}");
            assert_eq!(
                (&answer["status"], &answer["code"]),
                (&json!(503), &json!("settlement_unknown"))
            );
            assert_eq!((&answer["signed"], &answer["sent"]), (&json!(1), &json!(2)));
            assert_eq!(counts(), (before.0 + 1, before.1 + 1, before.2 + 1));
            // The settlement failed: the client gets the receipt with the reason, and does not pay again.
            facilitator.set_settle_reply(FacilitatorReply::Refuses("insufficient_balance"));
            let answer = chat_client.ask(&order(ask, by)).await;
            assert_eq!(
                (&answer["status"], &answer["code"]),
                (&json!(402), &json!("settlement_failed"))
            );
            assert_eq!(answer["receipt"]["errorReason"], "insufficient_balance", "{answer}");
            assert_eq!((&answer["signed"], &answer["sent"]), (&json!(1), &json!(2)));
            facilitator.set_settle_reply(FacilitatorReply::Good);
        }
    }
    // Without a verdict nothing was charged, and the client retries twice by default.
    facilitator.set_verify_reply(FacilitatorReply::Text(500, "{}".to_owned()));
    let before = counts();
    let header = customer.sign(2, &chat("hello")).await;
    let answer = chat_client.ask(&request_with_payment("chat", (header.name, &header.value))).await;
    assert_eq!(
        (&answer["status"], &answer["code"]),
        (&json!(503), &json!("facilitator_unavailable"))
    );
    assert_eq!(answer["sent"], 3);
    assert_eq!(counts(), (before.0 + 3, before.1, before.2));
    proxy.stop().await;
}
