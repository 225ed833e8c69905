//! Access control: API keys, and rate limits that a caller cannot evade by claiming another address.

use bursar_tests::payer::TransferMethod;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::facilitator::stage::{BASE, Stage};

/// Returns the setting that admits these callers, each with the key `key of <name>`.
pub(crate) fn keys(names: &[&str]) -> String {
    let digest = |name: &&str| {
        let digest = hex::encode(Sha256::digest(format!("key of {name}")));
        format!("{{ name = \"{name}\", sha256 = \"{digest}\" }}")
    };
    format!("api_keys = [{}]", names.iter().map(digest).collect::<Vec<_>>().join(", "))
}

impl Stage {
    /// Posts a payment to `/verify` with headers. A 429 must have `retry-after`: at two requests per minute, one is
    /// admitted each 30 seconds.
    async fn ask(&self, body: &Value, headers: &[(&str, &str)]) -> (u16, Value) {
        let mut asked = self.facilitator.request("POST", "/verify").json(body);
        for (name, value) in headers {
            asked = asked.header(*name, *value);
        }
        let answer = asked.send().await.expect("answered");
        let status = answer.status().as_u16();
        if status == 429 {
            let seconds = answer.headers()["retry-after"].to_str().expect("text").parse::<u64>();
            assert!((1..=30).contains(&seconds.expect("seconds")));
        }
        (status, answer.json().await.expect("JSON"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_api_keys_configured_a_caller_needs_one() {
    let Some(stage) = Stage::set_up(BASE, 1, &keys(&["shop", "stall"])).await else { return };
    let body = stage.pay(&stage.payer().await, TransferMethod::Eip3009, 10).body(2);
    let digest = hex::encode(Sha256::digest("key of shop"));
    let refused: [&[(&str, &str)]; 7] = [
        &[],
        &[("x-api-key", "")],
        &[("x-api-key", "key of nobody")],
        &[("x-api-key", "Key of shop")],
        &[("authorization", "key of shop")],
        &[("authorization", "Basic key of shop")],
        // The digest in the settings is not a valid key.
        &[("x-api-key", &digest)],
    ];
    for headers in refused {
        let (status, answer) = stage.ask(&body, headers).await;
        assert_eq!(status, 401, "{headers:?}: {answer}");
        assert!(answer["error"].is_string() && answer.get("isValid").is_none(), "{answer}");
        let settle = stage.facilitator.post("/settle", &body).await;
        assert_eq!(settle.0, 401);
        // Without a key, even the validity of the body stays hidden.
        assert_eq!(stage.facilitator.post_text("/verify", "{").await.0, 401);
    }
    for headers in [("x-api-key", "key of shop"), ("authorization", "Bearer key of stall")] {
        let (status, answer) = stage.ask(&body, &[headers]).await;
        assert_eq!((status, &answer["isValid"]), (200, &json!(true)), "{headers:?}");
    }
    // Servers read these endpoints before they have a payment, so they need no key.
    for path in ["/supported", "/health", "/contracts"] {
        assert_eq!(stage.facilitator.get(path).await.0, 200, "{path}");
    }
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_api_key_has_its_own_rate_limit() {
    let general = format!("{}\nrate_per_minute = 2", keys(&["shop", "stall"]));
    let Some(stage) = Stage::set_up(BASE, 1, &general).await else { return };
    let body = json!({});
    // The header marks a forwarded request: direct requests from this machine have no rate limit.
    let from = ("x-forwarded-for", "1.1.1.1");
    let ask = async |key: &str| stage.ask(&body, &[("x-api-key", key), from]).await.0;
    assert_eq!([ask("key of shop").await, ask("key of shop").await], [400, 400]);
    assert_eq!(ask("key of shop").await, 429);
    assert_eq!(ask("key of stall").await, 400, "it is another's");
    assert_eq!(ask("key of nobody").await, 401, "no key, no allowance");
    assert_eq!(stage.facilitator.get("/supported").await.0, 200);
    stage.facilitator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_trusted_proxy_determines_the_client_address() {
    let Some(stage) = Stage::set_up(BASE, 1, "rate_per_minute = 2\ntrusted_proxies = []").await
    else {
        return;
    };
    let body = json!({});
    let mut answer = Vec::new();
    for caller in ["1.1.1.1", "2.2.2.2", "3.3.3.3"] {
        answer.push(stage.ask(&body, &[("x-forwarded-for", caller)]).await.0);
    }
    assert_eq!(answer, [400, 400, 429], "a header does not make another caller");
    let stage = {
        let chain = stage.chain.clone();
        stage.facilitator.stop().await;
        let general = "rate_per_minute = 2\ntrusted_proxies = [\"127.0.0.1\"]";
        Stage::on(chain, 1, general, "").await
    };
    let ask = async |hops: &str| stage.ask(&body, &[("x-forwarded-for", hops)]).await.0;
    assert_eq!([ask("1.1.1.1").await, ask("1.1.1.1").await, ask("1.1.1.1").await], [400, 400, 429]);
    // The caller can forge everything left of the nearest hop.
    assert_eq!(ask("9.9.9.9, 1.1.1.1").await, 429);
    assert_eq!(ask("1.1.1.1, 2.2.2.2").await, 400);
    assert_eq!(ask("nonsense").await, 400, "then it is the proxy that asks");
    stage.facilitator.stop().await;
}
