//! The client of a registry of mandates: which URLs it calls, what it sends, and what it reads.

#![expect(clippy::expect_used, reason = "helpers of an integration test stand outside #[test]")]

use bursar_chain::ports::{Registry, RegistryFault};
use bursar_chain::registry_http::{DOCUMENT_BYTES_MAX, RegistryHttp, normalized_base};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

/// Starts a server that answers everything with `status`.
async fn serve(status: u16) -> MockServer {
    let server = MockServer::start().await;
    let answer = ResponseTemplate::new(status)
        .insert_header("location", "/elsewhere")
        .set_body_string("said");
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

/// Returns method, URL below the host, and body of each request.
async fn seen(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.expect("recorded");
    let line = |one: &wiremock::Request| {
        let below = &one.url[url::Position::BeforePath..];
        format!("{} {below} {}", one.method, String::from_utf8_lossy(&one.body))
    };
    requests.iter().map(line).collect()
}

#[tokio::test]
async fn both_calls_stay_below_the_base_url_and_keep_its_query() {
    let server = serve(409).await;
    let base = format!("{}/v1?key=K", server.uri());
    let reply = RegistryHttp.publish(&base, "{}".to_owned()).await.expect("a reply");
    assert_eq!((reply.status, &reply.body[..]), (409, &b"said"[..]));
    RegistryHttp.look_up(&base, "a&b").await.expect("a reply");
    assert_eq!(
        seen(&server).await,
        ["POST /v1/api/mandates?key=K {}", "GET /v1/api/mandates?key=K&id=a%26b "]
    );
}

#[tokio::test]
async fn redirects_long_documents_and_other_urls_are_refused() {
    let server = serve(302).await;
    let fault = RegistryHttp.publish(&server.uri(), "{}".to_owned()).await.expect_err("a redirect");
    assert!(matches!(&fault, RegistryFault::NoReply { .. }), "{fault}");
    assert_eq!(seen(&server).await.len(), 1);
    let long = "x".repeat(DOCUMENT_BYTES_MAX + 1);
    assert_eq!(RegistryHttp.publish(&server.uri(), long).await, Err(RegistryFault::TooLong));
    for base in ["http://registry.example", "ftp://127.0.0.1", "https://a@b.example", "nonsense"] {
        assert_eq!(normalized_base(base), Err(RegistryFault::Url), "{base}");
        assert_eq!(RegistryHttp.look_up(base, "x").await, Err(RegistryFault::Url), "{base}");
    }
    assert_eq!(seen(&server).await.len(), 1, "nothing else was sent");
}

#[test]
fn base_has_one_spelling() {
    for (given, normal) in [
        ("https://R.test", "https://r.test"),
        ("https://r.test/", "https://r.test"),
        ("https://r.test:443/v1//", "https://r.test/v1"),
        ("http://127.0.0.1:80/?key=K/", "http://127.0.0.1/?key=K"),
    ] {
        assert_eq!(normalized_base(given).as_deref(), Ok(normal));
    }
}

/// With paused time, the timeout passes as soon as nothing else can happen.
#[tokio::test(start_paused = true)]
async fn silent_registry_is_given_up_after_the_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let fault = RegistryHttp.look_up(&url, "x").await.expect_err("silence");
    let RegistryFault::NoReply { endpoint, reason } = fault else { panic!("{fault}") };
    assert_eq!((endpoint.as_str(), reason.as_str()), (url.as_str(), "no answer in time"));
}
