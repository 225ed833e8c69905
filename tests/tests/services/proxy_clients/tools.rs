//! OpenAI's clients call a tool: they send the model's message back as their library returned it, with the result.
//!
//! Each library adds members to the message. The proxy sells both requests, and passes all members on.

use alloy_primitives::U256;
use bursar_tests::proxy::Customer;
use bursar_tests::sdk::Script;
use bursar_tests::upstream::{Behavior, answer, frames_with_role, tool_call, tool_call_frames};
use serde_json::{Value, json};

use crate::proxy_clients::stage::{BASE, INITIAL_BALANCE, Stage};

const QUESTION: &str = "what time is it?";

/// The upstream first calls the tool, and then answers.
fn tool_loop(stream: bool) -> Behavior {
    let (call, then) = match stream {
        true => (
            Behavior::Stream(tool_call_frames()),
            Behavior::Stream(frames_with_role(&["hello", " world"])),
        ),
        false => (Behavior::Whole(tool_call()), Behavior::Whole(answer("hello world"))),
    };
    Behavior::Then(Box::new(call), Box::new(then))
}

/// Asserts that both requests were paid and answered, and that these members of the message reached the upstream.
async fn assert_tool_loop(stage: &Stage, customer: &Customer, reply: &Value, members: &[&str]) {
    assert_eq!(reply["content"], "hello world", "{reply}");
    for sale in [&reply["first"], reply] {
        let usd: f64 = sale["price"].as_str().expect("a price").parse().expect("dollars");
        let amount = U256::from((usd * 1e6).round());
        stage.assert_moved(&sale["receipt"], customer.payer.address(), amount).await;
    }
    assert_ne!(reply["first"]["receipt"]["transaction"], reply["receipt"]["transaction"]);
    let (_headers, body) = stage.upstream.last_request();
    let [question, call, result] = body["messages"].as_array().expect("a list").as_slice() else {
        panic!("{body}")
    };
    assert_eq!(question["content"], QUESTION);
    for member in members {
        assert!(call.get(*member).is_some(), "{member}: {call}");
    }
    let function = &call["tool_calls"][0]["function"];
    assert_eq!(
        (&function["name"], &function["arguments"]),
        (&json!("clock"), &json!("{\"zone\":\"UTC\"}")),
        "{call}"
    );
    assert_eq!(result, &json!({ "role": "tool", "tool_call_id": "call_1", "content": "noon" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_for_python_pays_for_both_requests_of_a_tool_call() {
    let Some(stage) = Stage::set_up(BASE, Behavior::Nothing).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let args = [stage.base_url(), customer.payer.key()];
    let mut client = Script::start_python("chat_client.py", &[&args[0], &args[1]]).await;
    // Sending the message object omits members that the answer did not contain; `model_dump` writes all of them.
    let members = ["refusal", "annotations", "tool_calls", "audio", "function_call"];
    let mut calls = 0;
    for by in ["sync", "async"] {
        for stream in [false, true] {
            for (returned, members) in [("object", &members[..3]), ("dict", &members[..])] {
                stage.upstream.set_behavior(tool_loop(stream));
                let order = json!({
                    "ask": "tools", "by": by, "text": QUESTION, "stream": stream, "returned": returned,
                });
                let reply = client.ask(&order).await;
                assert_eq!(
                    (&reply["signed"], &reply["sent"]),
                    (&json!(2), &json!(4)),
                    "{order}: {reply}"
                );
                assert_tool_loop(&stage, &customer, &reply, members).await;
                calls += 2;
            }
        }
    }
    assert_eq!(stage.upstream.calls(), calls);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openai_for_javascript_pays_for_both_requests_of_a_tool_call() {
    let Some(stage) = Stage::set_up(BASE, Behavior::Nothing).await else { return };
    let customer = stage.customer(INITIAL_BALANCE).await;
    let args = [stage.base_url(), customer.payer.key()];
    let mut client = Script::start("chat_client.mjs", &[&args[0], &args[1]]).await;
    let coin = stage.network().stablecoin.address;
    let mut calls = 0;
    for pays in ["@x402/fetch", "x402-fetch"] {
        for stream in [false, true] {
            stage.upstream.set_behavior(tool_loop(stream));
            let order = json!({
                "by": "openai", "pays": pays, "stream": stream, "text": QUESTION, "tools": true,
                "allowed": [{ "network": stage.network().caip2(), "asset": coin }],
            });
            let reply = client.ask(&order).await;
            // Requests: the list of models, and each of the two chat requests with and without a payment.
            assert_eq!(reply["sent"], 5, "{order}: {reply}");
            let members = ["refusal", "annotations", "tool_calls"];
            assert_tool_loop(&stage, &customer, &reply, &members).await;
            calls += 2;
        }
    }
    assert_eq!(stage.upstream.calls(), calls);
    stage.close().await;
}
