//! The HTTP explorer against a scripted server on 127.0.0.1: its requests, and what it must never show.

#![expect(clippy::unwrap_used, reason = "an integration test's helpers stand outside #[test]")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, U256, address};
use bursar_chain::explorer_http::{ExplorerHttp, ExplorerLimits};
use bursar_chain::ports::{Explorer, ExplorerFault, TokenBalance};
use serde_json::json;
use wiremock::matchers::{header, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

const OWNER: Address = address!("0x9858EfFD232B4033E47d90003D41EC34EcaEda94");
const SECRET: &str = "0123456789abcdef";

/// The URL as an operator sets it, with the key in path and query.
fn url(server: &MockServer) -> String {
    format!("{}/{SECRET}/api/v2?apikey={SECRET}", server.uri())
}

fn explorer(url: &str) -> ExplorerHttp {
    let limits = ExplorerLimits { timeout_ms: 2_000, reply_bytes_max: 4_096 };
    ExplorerHttp::new(url, limits).unwrap()
}

#[tokio::test]
async fn explorer_requests_extend_the_path_and_keep_the_query() {
    let server = MockServer::start().await;
    let token = Address::repeat_byte(0xab);
    let body = json!([{
        "token": { "address_hash": token, "symbol": "TST", "decimals": "2", "type": "ERC-20" },
        "value": "150",
    }]);
    Mock::given(method("GET"))
        .and(path(format!("/{SECRET}/api/v2/addresses/{OWNER}/token-balances")))
        .and(query_param("apikey", SECRET))
        .and(header("accept", "application/json"))
        .respond_with(ResponseTemplate::new(200).set_body_json(body))
        .expect(1)
        .mount(&server)
        .await;
    let amount = U256::from(150);
    let icon = None;
    let symbol = "TST".to_owned();
    let held = TokenBalance { address: token, symbol, decimals: Some(2), amount, icon };
    assert_eq!(explorer(&url(&server)).tokens(OWNER).await, Ok(vec![held]));
}

#[tokio::test]
async fn only_status_404_means_that_an_address_has_no_tokens() {
    for status in [404, 400, 401, 403, 429, 500, 502, 503, 201, 204] {
        let server = MockServer::start().await;
        let answer = ResponseTemplate::new(status).set_body_string("[]");
        Mock::given(method("GET")).respond_with(answer).mount(&server).await;
        let told = explorer(&url(&server)).tokens(OWNER).await;
        match told {
            Ok(tokens) => assert_eq!((status, tokens), (404, vec![])),
            Err(ExplorerFault::Status { status: named, .. }) => assert_eq!(named, status),
            Err(other) => panic!("{status}: {other}"),
        }
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn neither_faults_nor_debug_nor_logs_show_a_path_or_query() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let mut shown = String::new();
    for answer in [
        ResponseTemplate::new(503).set_body_string(SECRET),
        ResponseTemplate::new(200).set_body_string(SECRET),
        ResponseTemplate::new(200).set_body_string("[".repeat(5_000)),
        ResponseTemplate::new(302)
            .insert_header("location", format!("http://127.0.0.1:1/{SECRET}")),
    ] {
        let server = MockServer::start().await;
        Mock::given(method("GET")).respond_with(answer).mount(&server).await;
        let explorer = explorer(&url(&server));
        let fault = explorer.tokens(OWNER).await.unwrap_err();
        shown.push_str(&format!("{fault} {fault:?} {explorer:?}\n"));
    }
    let nobody = explorer(&format!("http://127.0.0.1:1/{SECRET}/api/v2?apikey={SECRET}"));
    let fault = nobody.tokens(OWNER).await.unwrap_err();
    shown.push_str(&format!("{fault} {fault:?} {nobody:?}\n"));

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(shown.contains("http://127.0.0.1:"), "{shown}");
    for text in [&shown, &log] {
        let secret = text.contains(SECRET) || text.contains("/api") || text.contains("apikey");
        assert!(!secret, "{text}");
    }
}
