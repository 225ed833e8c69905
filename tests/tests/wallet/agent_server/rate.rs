//! The rate limit of one caller, and which requests count as one caller.

use bursar_tests::agent::Agent;
use bursar_tests::operator::Expect;
use bursar_tests::raw::RawClient;
use std::net::{IpAddr, SocketAddr};

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use bursar_core::limits::RATE_PER_MINUTE;
use serde_json::Value;
use tower::ServiceExt;

use crate::agent_server::stage::Stage;

async fn call(stage: &Stage, peer: IpAddr, headers: &[(&str, &str)]) -> Response<Body> {
    let mut request = Request::builder().uri("/health").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::empty()).expect("a request");
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((peer, 5))));
    stage.engine.http.clone().oneshot(request).await.expect("an answer")
}

/// Returns how many of `calls` requests are served.
async fn served_count(stage: &Stage, calls: u32, peer: impl Fn(u32) -> String) -> u32 {
    let mut served = 0;
    for call_number in 0..calls {
        let peer = peer(call_number).parse().expect("an address");
        served += u32::from(call(stage, peer, &[]).await.status() == 200);
    }
    served
}

#[tokio::test]
async fn the_301st_request_of_a_minute_is_rate_limited() {
    let stage = Stage::new(RATE_PER_MINUTE).await;
    let before = stage.head().await;
    let mut caller = RawClient::to(stage.address).await;
    let health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for _call in 0..RATE_PER_MINUTE {
        assert_eq!(caller.ask(health).await.status, 200);
    }
    stage.engine.clock.advance(17_500);
    let ask = async || RawClient::to(stage.address).await.ask(health).await;
    let reply = ask().await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "RATE_LIMIT_EXCEEDED"));
    assert_eq!(reply.header("retry-after"), Some("43"), "the time to the next free place");
    assert_eq!(reply.json()["retry_after"], 43);
    assert_eq!(reply.json().get("status"), None, "{reply:?}");
    assert_eq!(stage.head().await, before);
    stage.engine.clock.advance(42_499);
    assert_eq!(ask().await.status, 429);
    stage.engine.clock.advance(1);
    assert_eq!(ask().await.status, 200);
}

/// Other callers on this machine do not use up an agent's rate.
#[tokio::test]
async fn t_40_unproven_calls_do_not_use_an_agents_rate() {
    let stage = Stage::new(RATE_PER_MINUTE).await;
    let second = stage.engine.add_agent("second", "hmac").await;
    let forged = stage.payable(0).replace("SIG:", "SIG:0");
    let mut caller = RawClient::to(stage.address).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
    let strangers = [
        get("/health"),
        get("/sign/status/0"),
        get("/status"),
        get("/nowhere"),
        crate::agent_server::stage::post("/sign", "", "{"),
        crate::agent_server::stage::post("/sign", "", &forged),
        crate::agent_server::stage::post("/mandate", "", &forged),
    ];
    let mut refused = 0;
    for call in strangers.iter().cycle().take(10 * RATE_PER_MINUTE as usize) {
        refused += usize::from(caller.ask(call).await.status == 429);
    }
    assert!(refused > 2_000, "{refused}");
    // Calls without a proof count for their address, not for the agent.
    let proven = async |agent: &Agent| {
        let body = agent.read(stage.engine.now_s()).to_string();
        RawClient::to(stage.address)
            .await
            .ask(&crate::agent_server::stage::post("/mandate", "", &body))
            .await
    };
    for call_number in 0..RATE_PER_MINUTE {
        assert_eq!(proven(&stage.agent).await.status, 200, "{call_number}");
    }
    // Beyond the agent's rate, a proven call gets the same answer as any other caller.
    let reply = proven(&stage.agent).await;
    assert_eq!((reply.status, reply.code().as_str()), (429, "RATE_LIMIT_EXCEEDED"));
    assert_eq!(reply.header("retry-after"), Some("60"));
    let before = stage.head().await;
    let pay = crate::agent_server::stage::post("/sign", "", &stage.payable(1));
    assert_eq!(caller.ask(&pay).await.status, 429);
    assert_eq!(stage.head().await, before, "nothing was done");
    assert_eq!(proven(&second).await.status, 200, "each agent has its own minute");
    stage.engine.clock.advance(60_000);
    assert_eq!(RawClient::to(stage.address).await.ask(&pay).await.status, 200);
}

#[tokio::test]
async fn settings_of_the_server_take_effect_at_once() {
    let stage = Stage::new(5).await;
    let mut operator = stage.engine.operator();
    let peer = || "192.168.1.9".to_owned();
    assert_eq!(served_count(&stage, 9, |_n| peer()).await, 5);
    for (setting, more) in [("7", 2), ("3", 0), ("0", 9), ("10", 3)] {
        let command = format!("config set server.rate_per_minute {setting}");
        let outcome = operator.outcome(&command).await;
        assert_eq!(outcome.reply.warnings, [], "{command}");
        assert_eq!(served_count(&stage, 9, |_n| peer()).await, more, "{command}");
    }
    let named = [("host", "wallet.lan")];
    let status = async |headers: &[(&str, &str)]| {
        let mut request = Request::builder().uri("/agent");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).expect("a request");
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([10, 0, 0, 1], 5))));
        stage.engine.http.clone().oneshot(request).await.expect("an answer").status().as_u16()
    };
    assert_eq!(status(&named).await, 403);
    operator.must("config set server.hosts wallet.lan").await;
    assert_eq!(status(&named).await, 200);
    operator.must("config set server.hosts default").await;
    assert_eq!(status(&named).await, 403);
}

#[tokio::test]
async fn t_40_checks_run_in_the_documented_order() {
    let stage = Stage::new(1).await;
    let too_large = "Content-Length: 9999999\r\n";
    let request =
        |first: &str, lines: &str| format!("{first} HTTP/1.1\r\n{lines}\r\n").into_bytes();
    let code = async |raw: Vec<u8>| RawClient::to(stage.address).await.ask(&raw).await.code();
    let (foreign, ours) = ("Host: evil.test\r\n", "Host: localhost\r\n");
    let page = "Origin: null\r\n";
    assert_eq!(code(request("GET /agent", ours)).await, "");
    // The first request fails every check; each later one fails one check less.
    let steps = [
        (request("GET /nowhere", &format!("{foreign}{page}{too_large}X: \0\r\n")), "BAD_REQUEST"),
        (request("POST /nowhere", &format!("{foreign}{page}{too_large}")), "FOREIGN_HOST_REJECTED"),
        (request("POST /nowhere", &format!("{ours}{page}{too_large}")), "BROWSER_ORIGIN_REJECTED"),
        (request("POST /nowhere", &format!("{ours}{too_large}")), "RATE_LIMIT_EXCEEDED"),
    ];
    for (raw, expected) in steps {
        assert_eq!(code(raw).await, expected);
    }
    let post = |body: &str| crate::agent_server::stage::post("/sign", "", body);
    let unsigned = stage.payable(1).replace("SIG:", "SIG:0");
    let steps = [
        (request("POST /nowhere", &format!("{ours}{too_large}")), "NOT_FOUND"),
        (request("PUT /sign", &format!("{ours}{too_large}")), "METHOD_NOT_ALLOWED"),
        (request("POST /sign", &format!("{ours}{too_large}")), "PAYLOAD_TOO_LARGE"),
        (post("{"), "INVALID_JSON"),
        (post("{}"), "MISSING_AGENT_ID"),
        (post(&unsigned), "AUTH_FAILED"),
    ];
    for (raw, expected) in steps {
        stage.engine.clock.advance(60_000);
        assert_eq!(code(raw).await, expected);
    }
}

#[tokio::test]
async fn an_ipv6_network_of_64_bits_counts_as_one_caller() {
    let stage = Stage::new(RATE_PER_MINUTE).await;
    assert_eq!(
        served_count(&stage, 1_000, |n| format!("2001:db8:0:1::{n:x}")).await,
        RATE_PER_MINUTE
    );
    assert_eq!(served_count(&stage, 10, |n| format!("2001:db8:0:2::{n:x}")).await, 10);
    assert_eq!(served_count(&stage, 400, |_n| "192.168.1.9".to_owned()).await, RATE_PER_MINUTE);
    assert_eq!(served_count(&stage, 10, |_n| "::ffff:192.168.1.9".to_owned()).await, 0);
    assert_eq!(served_count(&stage, 10, |n| format!("192.168.1.{}", n + 10)).await, 10);
    assert_eq!(
        served_count(&stage, 400, |n| format!("127.0.0.{}", n % 200 + 1)).await,
        RATE_PER_MINUTE
    );
    assert_eq!(served_count(&stage, 10, |_n| "::1".to_owned()).await, 0);
}

#[tokio::test]
async fn forwarding_headers_do_not_change_the_rate_limited_address() {
    let stage = Stage::new(RATE_PER_MINUTE).await;
    let peer: IpAddr = "192.168.1.9".parse().expect("an address");
    assert_eq!(served_count(&stage, RATE_PER_MINUTE, |_n| peer.to_string()).await, RATE_PER_MINUTE);
    for header in ["x-forwarded-for", "forwarded", "x-real-ip", "true-client-ip"] {
        let response = call(&stage, peer, &[(header, "10.0.0.1")]).await;
        assert_eq!(response.status(), 429, "{header}");
        let body = to_bytes(response.into_body(), 1 << 10).await.expect("a body");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["code"], "RATE_LIMIT_EXCEEDED");
    }
}

/// Health probes and other unproven calls are counted separately.
#[tokio::test]
async fn t_42_health_probes_and_other_unproven_calls_are_counted_separately() {
    let stage = Stage::new(RATE_PER_MINUTE).await;
    let mut caller = RawClient::to(stage.address).await;
    let health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let agent = b"GET /agent HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for call_number in 0..RATE_PER_MINUTE {
        for call in [&health[..], &agent[..]] {
            assert_eq!(caller.ask(call).await.status, 200, "{call_number}");
        }
    }
    for call in [&health[..], &agent[..]] {
        assert_eq!(caller.ask(call).await.status, 429);
    }
}
