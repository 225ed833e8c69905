//! The normal sale: request, payment, answer.

use bursar_tests::proxy::{ProxyHome, SELLER, chat, receipt};
use bursar_tests::upstream::{Behavior, KEY, answer};
use serde_json::{Value, json};

use crate::proxy::stage::{Stage, refusal, status_and_json};

#[tokio::test]
async fn a_sale_runs_from_quote_to_answer_in_both_versions() {
    let stage = Stage::with_answer().await;
    for version in [1, 2] {
        let body = chat("hello");
        let challenge = stage.customer.ask(&body).await;
        let price = &challenge.v1["price"];
        assert_eq!(price["model"], "toy");
        assert_eq!(price["completion_tokens_max"], 100);
        let header = stage.customer.sign_with(version, &challenge, |_due| {});
        // The price is one unit of USDC per token.
        let tokens = price["prompt_tokens"].as_u64().unwrap() + 100;
        assert_eq!(header.terms.amount.to::<u64>(), tokens);
        assert_eq!(price["usd"], json!(format!("0.{tokens:06}")));
        assert_eq!(header.terms.to, SELLER);
        let response = stage.customer.send(&body, &header).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["cache-control"], "private");
        assert_eq!(response.headers()["x-price-usd"], format!("0.{tokens:06}"));
        let network = if version == 1 { "base" } else { "eip155:8453" };
        let receipt = receipt(&response);
        assert_eq!((&receipt["success"], &receipt["network"]), (&json!(true), &json!(network)));
        assert_eq!(response.headers().contains_key("x-payment-response"), version == 1);
        assert_eq!(status_and_json(response).await, (200, answer("hello world")));
    }
    assert_eq!(stage.counts(), (2, 2));
}

#[tokio::test]
async fn an_unpaid_request_costs_the_upstream_nothing_and_names_its_resource() {
    let stage = Stage::with_answer().await;
    let challenge = stage.customer.ask(&chat("hello")).await;
    let resource = format!("{}/v1/chat/completions", stage.proxy.url);
    assert_eq!(challenge.v2["resource"]["url"], json!(resource));
    assert_eq!(challenge.v1["accepts"][0]["resource"], json!(resource));
    assert!(challenge.v1["error"].is_string() && challenge.v2["error"].is_string());
    assert_eq!(
        (challenge.v1["x402Version"].as_u64(), challenge.v2["x402Version"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!(stage.counts(), (0, 0));
    assert_eq!(stage.facilitator.verify_calls(), 0);
}

#[tokio::test]
async fn the_upstream_gets_its_key_the_body_and_nothing_else_of_the_customer() {
    let stage = Stage::with_answer().await;
    let body = json!({ "messages": [{ "role": "user", "content": "hi" }], "seed": 7 });
    let header = stage.customer.sign(2, &body).await;
    let request = stage.customer.request(&body).header(header.name, &header.value);
    let request = request.header("authorization", "Bearer customer").header("cookie", "a=b");
    let response = request.header("x-forwarded-for", "1.2.3.4").send().await.unwrap();
    assert_eq!(response.status(), 200);
    let (headers, sent) = stage.upstream.last_request();
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(headers["user-agent"], format!("bursar-proxy/{}", env!("CARGO_PKG_VERSION")));
    for name in ["cookie", "payment-signature", "x-payment", "x-forwarded-for", "origin"] {
        assert!(!headers.contains_key(name), "{name}");
    }
    // If the body has no token limit, the upstream gets the limit that was paid for.
    assert_eq!(sent["max_completion_tokens"], 1024);
    assert_eq!(sent["seed"], 7);
    // If the body has a limit, the upstream gets exactly the customer's bytes.
    let bounded = chat("x");
    assert_eq!(stage.customer.buy(2, &bounded).await.status(), 200);
    assert_eq!(stage.upstream.last_body(), serde_json::to_vec(&bounded).unwrap());
}

/// An agent that calls tools sends each answer back. Official libraries send all members of the answer, including empty
/// ones.
#[tokio::test]
async fn an_answer_with_all_its_members_is_sent_back_in_the_next_request() {
    let mut first = answer("");
    first["choices"][0]["finish_reason"] = json!("tool_calls");
    first["choices"][0]["message"] = json!({
        "role": "assistant", "content": null, "refusal": null, "function_call": null,
        "annotations": [{ "type": "url_citation", "url_citation": {
            "start_index": 0, "end_index": 4, "url": "https://a.test/", "title": "A",
        } }],
        "audio": { "id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "noon" },
        "tool_calls": [{
            "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "clock", "arguments": "{}" },
        }],
    });
    let stage = Stage::set_up(Behavior::Whole(first)).await;
    let mut body = chat("what time is it?");
    let function = json!({ "name": "clock", "parameters": { "type": "object" } });
    body["tools"] = json!([{ "type": "function", "function": function }]);
    let customer = &stage.customer;
    let price = |body: Value| async move {
        customer.ask(&body).await.v1["price"]["prompt_tokens"].as_u64().unwrap()
    };
    let before = price(body.clone()).await;
    let (status, reply) = status_and_json(stage.customer.buy(2, &body).await).await;
    assert_eq!(status, 200);
    let result = json!({ "role": "tool", "tool_call_id": "call_1", "content": "noon" });
    let messages = body["messages"].as_array_mut().unwrap();
    messages.extend([reply["choices"][0]["message"].clone(), result]);
    assert!(price(body.clone()).await > before + 60, "its JSON is priced");
    stage.upstream.set_behavior(Behavior::Whole(answer("it is noon")));
    let response = stage.customer.buy(2, &body).await;
    assert_eq!(status_and_json(response).await, (200, answer("it is noon")));
    assert_eq!(stage.upstream.last_body(), serde_json::to_vec(&body).unwrap());
    assert_eq!(stage.counts(), (2, 2));
}

#[tokio::test]
async fn models_are_forwarded_unpaid_and_the_upstream_is_called_once() {
    let stage = Stage::with_answer().await;
    let url = format!("{}/v1/models", stage.proxy.url);
    let get =
        || async { status_and_json(stage.customer.client.get(&url).send().await.unwrap()).await };
    for (status, list) in futures::future::join_all((0..50).map(|_n| get())).await {
        assert_eq!((status, &list["data"][0]["id"]), (200, &json!("toy")));
    }
    assert_eq!(stage.upstream.model_list_calls(), 1);
    // A recently fetched list is served despite the failure.
    stage.upstream.set_behavior(Behavior::Status(503, "{\"error\":{}}".to_owned()));
    assert_eq!(get().await.0, 200);
    assert_eq!(stage.upstream.model_list_calls(), 1);
}

#[tokio::test]
async fn upstream_errors_for_models_are_forwarded_without_the_key() {
    for (status, text) in [(503, "{\"error\":{}}".to_owned()), (404, format!("no {KEY}"))] {
        let stage = Stage::set_up(Behavior::Status(status, text.clone())).await;
        let url = format!("{}/v1/models", stage.proxy.url);
        for _time in 0..3 {
            let response = stage.customer.client.get(&url).send().await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(response.text().await.unwrap(), text.replace(KEY, "[key]"));
        }
        assert_eq!(stage.upstream.model_list_calls(), 1, "a failure is shared for a moment, too");
    }
    let stage = Stage::set_up(Behavior::Status(401, format!("wrong key {KEY}"))).await;
    let url = format!("{}/v1/models", stage.proxy.url);
    let response = stage.customer.client.get(&url).send().await.unwrap();
    assert_eq!(refusal(response).await, (502, "upstream_key_refused".to_owned()));
}

#[tokio::test]
async fn models_and_prices_have_a_limit_for_each_address_and_this_machine_has_none() {
    let stage = Stage::with(
        Behavior::Whole(answer("hello world")),
        "rate_per_minute = 2\ntrusted_proxies = [\"127.0.0.0/8\"]",
    )
    .await;
    let models = async |from: Option<&str>| {
        let mut request = stage.customer.client.get(format!("{}/v1/models", stage.proxy.url));
        if let Some(from) = from {
            request = request.header("x-forwarded-for", from);
        }
        request.send().await.unwrap()
    };
    assert_eq!(models(Some("9.9.9.9")).await.status(), 200);
    let request = stage.customer.request(&chat("hello")).header("x-forwarded-for", "9.9.9.9");
    assert_eq!(request.send().await.unwrap().status(), 402);
    let response = models(Some("9.9.9.9")).await;
    // At two requests per minute, one is admitted each 30 seconds.
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(refusal(response).await, (429, "too_many_requests".to_owned()));
    assert_eq!(models(Some("8.8.8.8")).await.status(), 200);
    for _time in 0..9 {
        assert_eq!(models(None).await.status(), 200);
    }
}

/// The reference is the newest block, or the facilitator's clock if there is no node.
#[tokio::test]
async fn a_wrong_clock_is_visible() {
    let stage = Stage::with_answer().await;
    let readyz = async |stage: &Stage| {
        let response = stage.customer.client.get(format!("{}/readyz", stage.proxy.url)).send();
        status_and_json(response.await.unwrap()).await
    };
    let until = async |stage: &Stage, status: u16, name: &str, clock: bool| loop {
        let (found, body) = readyz(stage).await;
        let check = &body["checks"][name];
        if found == status && check["clock"] == clock && check["clockAheadSeconds"].is_i64() {
            return check["clockAheadSeconds"].as_i64().unwrap();
        }
        tokio::task::yield_now().await;
    };
    let base = "eip155:8453";
    assert!((-60..=60).contains(&until(&stage, 200, base, true).await));
    stage.node.set_ahead(3_600);
    let stage = stage.restart().await;
    assert!(until(&stage, 503, base, false).await < -3_500);
    let own = ProxyHome::new(&stage.upstream.url, &stage.facilitator.url, "");
    let proxy = own.start().await;
    let stage = Stage { proxy, home: own, ..stage };
    assert!((-60..=60).contains(&until(&stage, 200, "facilitator", true).await));
}

#[tokio::test]
async fn only_health_openapi_and_metrics_are_served() {
    let stage = Stage::with_answer().await;
    assert_eq!(stage.customer.buy(2, &chat("hello")).await.status(), 200);
    let get = |path: &str| stage.customer.client.get(format!("{}{path}", stage.proxy.url)).send();
    let (status, health) = status_and_json(get("/health").await.unwrap()).await;
    assert_eq!((status, &health["status"]), (200, &json!("healthy")));
    assert_eq!(status_and_json(get("/openapi.json").await.unwrap()).await.0, 200);
    assert_eq!(refusal(get("/metrics").await.unwrap()).await, (404, "not_found".to_owned()));
    let wrong = get("/v1/chat/completions").await.unwrap();
    assert_eq!(refusal(wrong).await, (405, "method_not_allowed".to_owned()));
    let metrics = stage.proxy.metrics().await;
    for line in [
        "bursar_proxy_chats_total{result=\"quoted\"} 1",
        "bursar_proxy_chats_total{result=\"whole\"} 1",
        "bursar_proxy_upstream_calls_total{result=\"good\"} 1",
        "bursar_proxy_settlements_total{result=\"settled\"} 1",
        "bursar_proxy_tokens_total{model=\"other\",kind=\"prompt\"} 7",
        "bursar_proxy_tokens_total{model=\"other\",kind=\"completion\"} 2",
        "network=\"eip155:8453\"",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}
