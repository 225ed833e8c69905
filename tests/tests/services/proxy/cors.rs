//! Browser pages: refused by default. With `cors_origins` they can ask, pay, and read price and receipt.

use bursar_tests::proxy::{chat, receipt, streaming_chat};
use bursar_tests::raw::RawClient;
use bursar_tests::upstream::{Behavior, answer, frames};
use reqwest::{Method, Response};

use crate::proxy::stage::Stage;

const APP_ORIGIN: &str = "https://app.example";
/// Headers that the official clients of x402 and of OpenAI send.
const CLIENT_HEADERS: &str =
    "access-control-expose-headers,authorization,content-type,payment-signature,x-stainless-os";

fn whole_answer() -> Behavior {
    Behavior::Whole(answer("hello world"))
}

async fn preflight(stage: &Stage, path: &str, origin: &str) -> Response {
    let request = stage.customer.client.request(Method::OPTIONS, stage.proxy.url.clone() + path);
    let request = request.header("origin", origin).header("access-control-request-method", "POST");
    request.header("access-control-request-headers", CLIENT_HEADERS).send().await.unwrap()
}

/// Returns the origin that may read a response, after checking the exposed headers.
fn permitted_origin(response: &Response) -> Option<String> {
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("access-control-allow-credentials"), None);
    let exposed = header("access-control-expose-headers").unwrap_or_default().to_lowercase();
    let origin = header("access-control-allow-origin");
    for name in ["payment-required", "payment-response", "x-payment-response", "x-price-usd"] {
        assert_eq!(exposed.contains(name), origin.is_some(), "{name} in {exposed}");
    }
    origin.map(str::to_owned)
}

#[tokio::test]
async fn pages_can_read_nothing_by_default() {
    let stage = Stage::with_answer().await;
    let response = preflight(&stage, "/v1/chat/completions", APP_ORIGIN).await;
    assert_eq!((response.status().as_u16(), permitted_origin(&response)), (405, None));
    let request = stage.customer.request(&chat("hello")).header("origin", APP_ORIGIN);
    let response = request.send().await.unwrap();
    assert_eq!((response.status().as_u16(), permitted_origin(&response)), (402, None));
    assert!(!response.headers().contains_key("vary"));
}

#[tokio::test]
async fn a_page_of_a_listed_origin_pays_and_reads_price_answer_and_receipt() {
    let more = format!("cors_origins = [\"{APP_ORIGIN}\", \"http://localhost:3000\"]");
    let stage = Stage::with(whole_answer(), &more).await;
    for origin in [APP_ORIGIN, "http://localhost:3000"] {
        let response = preflight(&stage, "/v1/chat/completions", origin).await;
        assert_eq!(response.status(), 204);
        assert_eq!(response.headers()["access-control-allow-headers"], CLIENT_HEADERS);
        assert_eq!(response.headers()["access-control-allow-methods"], "GET, POST");
        assert_eq!(permitted_origin(&response).as_deref(), Some(origin));
        for (body, behavior) in [
            (chat("hello"), whole_answer()),
            (streaming_chat("hello"), Behavior::Stream(frames(&["hello", " world"]))),
        ] {
            stage.upstream.set_behavior(behavior);
            let response = stage.customer.request(&body).header("origin", origin).send().await;
            assert_eq!(permitted_origin(response.as_ref().unwrap()).as_deref(), Some(origin));
            let header = stage.customer.sign(2, &body).await;
            let request = stage.customer.request(&body).header(header.name, &header.value);
            let response = request.header("origin", origin).send().await.unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(permitted_origin(&response).as_deref(), Some(origin));
            assert_eq!(response.headers()["vary"], "Origin");
            assert_eq!(receipt(&response)["success"], true);
        }
    }
    assert_eq!(stage.counts(), (4, 4));
}

/// Each layer may refuse a request; a page that cannot read the refusal sees only a network error.
#[tokio::test]
async fn a_page_reads_refusals_of_every_layer_and_no_other_page_does() {
    let more = format!(
        "cors_origins = [\"{APP_ORIGIN}\"]\nrate_per_minute = 3\ntrusted_proxies = [\"127.0.0.0/8\"]"
    );
    let stage = Stage::with(whole_answer(), &more).await;
    let get = async |path: &str, origin: &str| {
        let request = stage.customer.client.get(stage.proxy.url.clone() + path);
        let request = request.header("origin", origin).header("x-forwarded-for", "1.2.3.4");
        request.send().await.unwrap()
    };
    for (path, status) in [
        ("/v1/chat/completions", 405),
        ("/v1/models", 200),
        ("/v1/models", 200),
        ("/v1/models", 200),
        ("/v1/models", 429),
        ("/nothing", 404),
        ("/health", 200),
    ] {
        let response = get(path, APP_ORIGIN).await;
        let named = (response.status().as_u16(), permitted_origin(&response));
        assert_eq!(named, (status, Some(APP_ORIGIN.to_owned())), "{path}");
    }
    // Tests other pages, and pages without an origin.
    for origin in ["https://other.example", "https://app.example.other", "null", ""] {
        let response = get("/health", origin).await;
        assert_eq!(
            (permitted_origin(&response), &response.headers()["vary"]),
            (None, &"Origin".parse().unwrap())
        );
        let response = preflight(&stage, "/v1/models", origin).await;
        assert_eq!((response.status().as_u16(), permitted_origin(&response)), (405, None));
    }
    // The HTTP edge refuses these requests before a route reads them.
    for origin in [APP_ORIGIN, "https://other.example"] {
        let mut client = RawClient::to(stage.proxy.running.address).await;
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\nContent-Length: 99999999\r\n\r\n"
        );
        let reply = client.ask(head.as_bytes()).await;
        assert_eq!(reply.status, 413);
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, (origin == APP_ORIGIN).then_some(APP_ORIGIN));
    }
}

#[tokio::test]
async fn all_origins_may_be_allowed() {
    let stage = Stage::with(whole_answer(), "cors_origins = [\"*\"]").await;
    for origin in [APP_ORIGIN, "null"] {
        let response = preflight(&stage, "/v1/chat/completions", origin).await;
        assert_eq!(
            (response.status().as_u16(), permitted_origin(&response).as_deref()),
            (204, Some("*"))
        );
        let request = stage.customer.request(&chat("hello")).header("origin", origin);
        let response = request.send().await.unwrap();
        assert_eq!(
            (response.status().as_u16(), permitted_origin(&response).as_deref()),
            (402, Some("*"))
        );
        assert!(!response.headers().contains_key("vary"));
    }
}
