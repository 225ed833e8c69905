//! Raw requests to the public services: each has exactly one answer, and nothing after a refused one is read.

use bursar_tests::framings::{CHUNKS, FRAMINGS};
use bursar_tests::raw::RawClient;

use crate::edge::stage::Service;

/// A request, its status, and whether the connection stays open.
type Case = (Vec<u8>, u16, bool);

fn lines(first: &str, more: &str) -> Vec<u8> {
    format!("{first}\r\nHost: localhost\r\n{more}\r\n").into_bytes()
}

fn health_request(more: &str) -> Vec<u8> {
    lines("GET /health HTTP/1.1", more)
}

/// Cases that hold for every public service.
fn cases(service: &Service) -> Vec<Case> {
    let line = |text: &str| lines(text, "");
    let bad = |raw| (raw, 400, false);
    let body_route = service.body_route;
    let post = |path: &str, more: &str, body: &str| {
        let length = format!("Content-Length: {}\r\n", body.len());
        [&lines(&format!("POST {path} HTTP/1.1"), &(length + more))[..], body.as_bytes()].concat()
    };
    let chunked = |body: &str| {
        let head = lines(&format!("POST {body_route} HTTP/1.1"), "Transfer-Encoding: chunked\r\n");
        [&head[..], body.as_bytes()].concat()
    };
    vec![
        (health_request(""), 200, true),
        (line("GET /health HTTP/1.0"), 200, false),
        (health_request("Connection: close\r\n"), 200, false),
        (health_request("Connection: x, CLOSE\r\n"), 200, false),
        (health_request("Content-Length: 0\r\n"), 200, true),
        (health_request("Expect: 100-continue\r\n"), 200, true),
        // Clients that offer HTTP/2 are answered in HTTP/1.1.
        (health_request("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"), 200, true),
        (line("GET /nowhere HTTP/1.1"), 404, true),
        (line("POST /health HTTP/1.1"), 405, true),
        // If no route reads the body, the server closes the connection.
        (post("/nowhere", "", "{}"), 404, false),
        (post(body_route, "", "[]"), 400, true),
        (chunked("2\r\n[]\r\n0\r\n\r\n"), 400, true),
        (chunked("0001\r\n[\r\n1\r\n]\r\n00\r\n\r\n"), 400, true),
        bad(health_request("Expect: 200-ok\r\n")),
        bad(health_request("Content-Length: 2\r\n")),
        bad(health_request("Transfer-Encoding: chunked\r\n")),
        bad(line("GET /health HTTP/1.2")),
        bad(line("GET /health HTTP/2.0")),
        bad(line("GET /health http/1.1")),
        bad(line("GET  /health HTTP/1.1")),
        bad(line(" GET /health HTTP/1.1")),
        bad(line("GET /health")),
        bad(line("\r\nGET /health HTTP/1.1")),
        bad(line("GET /health#x HTTP/1.1")),
        bad(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        bad(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        bad(b"GET /health HTTP/1.1\nHost: localhost\n\n".to_vec()),
        (line(&format!("GET /{} HTTP/1.1", "x".repeat(9 << 10))), 431, false),
        (health_request(&"X: y\r\n".repeat(100)), 431, false),
        (health_request(&format!("X: {}\r\n", "y".repeat(65 << 10))), 431, false),
    ]
}

#[tokio::test]
async fn t_40_public_services_answer_each_raw_request_once_however_it_is_split() {
    for service in Service::both().await {
        for (raw, status, accepts_another_request) in cases(&service) {
            let shown = String::from_utf8_lossy(&raw[..raw.len().min(200)]).into_owned();
            let shown = format!("{}: {shown:?}", service.name);
            let mut caller = RawClient::to(service.address).await;
            let reply = caller.ask(&raw).await;
            assert_eq!(reply.status, status, "{shown}: {reply:?}");
            assert_eq!(reply.closes_connection(), !accepts_another_request, "{shown}: {reply:?}");
            assert_eq!(caller.accepts_another_request().await, accepts_another_request, "{shown}");
            if raw.len() < 300 {
                let mut caller = RawClient::to(service.address).await;
                caller.send_bytewise(&raw).await;
                let reply = caller.reply(false).await.expect("an answer");
                assert_eq!(reply.status, status, "{shown}, byte by byte: {reply:?}");
            }
        }
    }
}

/// Asserts that the request is refused, and that the request after it is not read.
async fn assert_refused(service: &Service, raw: &str) {
    let shown = format!("{}: {raw:?}", service.name);
    let mut caller = RawClient::to(service.address).await;
    let smuggled = health_request("");
    let reply = caller.ask(&[raw.as_bytes(), &smuggled[..]].concat()).await;
    assert!(reply.status == 400 || reply.status == 413, "{shown}: {reply:?}");
    assert!(reply.closes_connection(), "{shown}: {reply:?}");
    assert!(!caller.accepts_another_request().await, "{shown}");
}

#[tokio::test]
async fn t_40_public_services_read_no_ambiguous_framing() {
    for service in Service::both().await {
        let first = format!("POST {} HTTP/1.1\r\nHost: localhost", service.body_route);
        for (lines, body, _code) in FRAMINGS {
            assert_refused(&service, &format!("{first}\r\n{lines}\r\n\r\n{body}")).await;
        }
        for (chunks, code) in CHUNKS {
            // Only the wallet refuses these chunk lengths as too large; these services would wait for the data.
            if *code == "PAYLOAD_TOO_LARGE" && !chunks.starts_with('f') {
                continue;
            }
            let head = format!("{first}\r\nTransfer-Encoding: chunked\r\n\r\n");
            assert_refused(&service, &format!("{head}{chunks}")).await;
        }
        let old = first.replace("HTTP/1.1", "HTTP/1.0");
        assert_refused(&service, &format!("{old}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
            .await;
    }
}
