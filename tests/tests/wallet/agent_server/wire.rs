//! The HTTP rules, at each bound and one beyond it.

use bursar_core::limits::{BODY_BYTES_MAX, HEAD_BYTES_MAX, HEAD_LINES_MAX, REQUEST_LINE_BYTES_MAX};
use bursar_tests::raw::RawClient;

use crate::agent_server::stage::{Stage, UNLIMITED, post};

/// A request, its status, its code (empty for none), and whether the connection stays open.
type Case = (Vec<u8>, u16, &'static str, bool);

fn get(target: &str) -> Vec<u8> {
    lines(&format!("GET {target} HTTP/1.1"), "")
}

fn lines(first: &str, more: &str) -> Vec<u8> {
    format!("{first}\r\nHost: localhost\r\n{more}\r\n").into_bytes()
}

fn versions_and_protocols() -> Vec<Case> {
    let line = |text: &str| lines(text, "");
    let with = |text: &str| lines("GET /health HTTP/1.1", text);
    let bad = |raw| (raw, 400, "BAD_REQUEST", false);
    vec![
        (line("GET /health HTTP/1.1"), 200, "", true),
        (line("GET /health HTTP/1.0"), 200, "", false),
        (lines("GET /health HTTP/1.0", "Connection: Keep-Alive\r\n"), 200, "", true),
        (b"GET /health HTTP/1.0\r\n\r\n".to_vec(), 200, "", false),
        (b"GET /health HTTP/1.1\r\n\r\n".to_vec(), 400, "BAD_REQUEST", true),
        (with("Host: localhost\r\n"), 400, "BAD_REQUEST", true),
        (with("Connection: close\r\n"), 200, "", false),
        (with("Connection: x, CLOSE\r\n"), 200, "", false),
        (with("Connection: keep-alive\r\nConnection: close\r\n"), 200, "", false),
        (with("TE: trailers\r\n"), 200, "", true),
        bad(line("GET /health HTTP/1.2")),
        bad(line("GET /health HTTP/2.0")),
        bad(line("GET /health HTTP/0.9")),
        bad(line("GET /health http/1.1")),
        bad(line("GET /health HTTP/1.1 ")),
        bad(line("GET  /health HTTP/1.1")),
        bad(line("GET\t/health HTTP/1.1")),
        bad(line(" GET /health HTTP/1.1")),
        bad(line("GET /health")),
        bad(line("GET HTTP/1.1")),
        bad(line("\r\nGET /health HTTP/1.1")),
        bad(line("G\u{e9}T /health HTTP/1.1")),
        bad(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        bad(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()),
        bad(b"GET /health HTTP/1.1\nHost: localhost\n\n".to_vec()),
        // The request is refused without waiting for an end that may never come.
        bad(b"GET /health HTTP/1.1\rHost: localhost\r\r".to_vec()),
        bad(with("Upgrade: websocket\r\nConnection: Upgrade\r\n")),
        bad(with("Upgrade: h2c\r\n")),
        bad(with("Connection: keep-alive, upgrade\r\n")),
        bad(with("Expect: 200-ok\r\n")),
        bad(with("Expect: 100-continue\r\nExpect: 100-continue\r\n")),
        (with("Expect: 100-continue\r\n"), 200, "", true),
    ]
}

fn paths_and_methods() -> Vec<Case> {
    let request = |line: &str| lines(line, "");
    vec![
        (get("/health?x=1&y=%00"), 200, "", true),
        (get("//health"), 404, "NOT_FOUND", true),
        (get("/health/"), 404, "NOT_FOUND", true),
        (get("/../health"), 404, "NOT_FOUND", true),
        (get("/./health"), 404, "NOT_FOUND", true),
        (get("/x/..%2fhealth"), 404, "NOT_FOUND", true),
        (get("/%68ealth"), 404, "NOT_FOUND", true),
        (get("/health%00"), 404, "NOT_FOUND", true),
        (get("/HEALTH"), 404, "NOT_FOUND", true),
        (get("/sign%2fstatus"), 404, "NOT_FOUND", true),
        (get("/sign/status/%ff"), 400, "INVALID_REQUEST_ID", true),
        (get("/sign/status/a%2fb"), 400, "INVALID_REQUEST_ID", true),
        (get("/sign/status/.."), 400, "INVALID_REQUEST_ID", true),
        (get("/sign/status/"), 400, "MISSING_REQUEST_ID", true),
        (get("/sign/status/00000000-0000-4000-8000-000000000000"), 404, "REQUEST_NOT_FOUND", true),
        (get("/health#x"), 400, "BAD_REQUEST", false),
        // Targets that hyper would answer itself, without a body.
        (get("\\/x"), 400, "BAD_REQUEST", false),
        (get("%2fx"), 400, "BAD_REQUEST", false),
        (get("http:///x"), 400, "BAD_REQUEST", false),
        (get("/x\\"), 404, "NOT_FOUND", true),
        (get("/h\u{e9}alth"), 400, "BAD_REQUEST", false),
        (get("http://evil.test/health"), 403, "FOREIGN_HOST_REJECTED", true),
        (get("http://localhost/health"), 403, "FOREIGN_HOST_REJECTED", true),
        (get("health"), 403, "FOREIGN_HOST_REJECTED", true),
        (request("CONNECT localhost:443 HTTP/1.1"), 403, "FOREIGN_HOST_REJECTED", true),
        (request("OPTIONS * HTTP/1.1"), 404, "NOT_FOUND", true),
        (request("OPTIONS /sign HTTP/1.1"), 405, "METHOD_NOT_ALLOWED", true),
        (request("TRACE /health HTTP/1.1"), 405, "METHOD_NOT_ALLOWED", true),
        (request("BREW /health HTTP/1.1"), 405, "METHOD_NOT_ALLOWED", true),
        (request("get /health HTTP/1.1"), 405, "METHOD_NOT_ALLOWED", true),
        (request("GET /sign HTTP/1.1"), 405, "METHOD_NOT_ALLOWED", true),
        (request("POST /nowhere HTTP/1.1"), 404, "NOT_FOUND", true),
        (post("/nowhere", "", "{}"), 404, "NOT_FOUND", false),
        (post("/health", "", "{}"), 405, "METHOD_NOT_ALLOWED", false),
    ]
}

fn bodies() -> Vec<Case> {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let in_chunks =
        |text: &str| [&lines("POST /ping HTTP/1.1", chunked)[..], text.as_bytes()].concat();
    let of_size = |size: usize| format!("{{\"agent_id\":\"{}\"}}", "x".repeat(size - 15));
    let announced =
        |size: usize| lines("POST /ping HTTP/1.1", &format!("Content-Length: {size}\r\n"));
    let largest = of_size(BODY_BYTES_MAX);
    assert_eq!(largest.len(), BODY_BYTES_MAX);
    let halves = largest.split_at(BODY_BYTES_MAX / 2);
    let half = BODY_BYTES_MAX / 2;
    let with_body = |line: &str| [&lines(line, "Content-Length: 2\r\n")[..], b"{}"].concat();
    vec![
        (post("/ping", "", "{}"), 400, "MISSING_AGENT_ID", true),
        (post("/ping", "", ""), 400, "MISSING_AGENT_ID", true),
        (lines("POST /ping HTTP/1.1", ""), 400, "MISSING_AGENT_ID", true),
        (post("/ping", "", "[]"), 400, "INVALID_JSON", true),
        (post("/ping", "", "{\"a\":1,\"a\":2}"), 400, "INVALID_JSON", true),
        (post("/ping", "Content-Encoding: gzip\r\n", "{}"), 415, "UNSUPPORTED_ENCODING", false),
        (with_body("GET /status HTTP/1.1"), 200, "", true),
        (with_body("GET /health HTTP/1.1"), 400, "BAD_REQUEST", false),
        (lines("GET /health HTTP/1.1", "Content-Length: 0\r\n"), 200, "", true),
        (in_chunks("2\r\n{}\r\n0\r\n\r\n"), 400, "MISSING_AGENT_ID", true),
        (in_chunks("0001\r\n{\r\n1\r\n}\r\n00\r\n\r\n"), 400, "MISSING_AGENT_ID", true),
        (in_chunks("0\r\n\r\n"), 400, "MISSING_AGENT_ID", true),
        (in_chunks("A\r\n{\"a\": null\r\n1\r\n}\r\n0\r\n\r\n"), 400, "MISSING_AGENT_ID", true),
        (post("/ping", "", &largest), 404, "AGENT_NOT_FOUND", true),
        (
            in_chunks(&format!(
                "{half:x}\r\n{}\r\n{half:X}\r\n{}\r\n0\r\n\r\n",
                halves.0, halves.1
            )),
            404,
            "AGENT_NOT_FOUND",
            true,
        ),
        // The request is refused for its announced length, before any of the body was sent.
        (announced(BODY_BYTES_MAX + 1), 413, "PAYLOAD_TOO_LARGE", false),
        (announced(9_999_999_999_999_999), 413, "PAYLOAD_TOO_LARGE", false),
        (post("/ping", "", &of_size(BODY_BYTES_MAX + 1)), 413, "PAYLOAD_TOO_LARGE", false),
        (
            in_chunks(&format!("{BODY_BYTES_MAX:x}\r\n{largest}\r\n1\r\n}}\r\n0\r\n\r\n")),
            413,
            "PAYLOAD_TOO_LARGE",
            false,
        ),
    ]
}

fn bounds() -> Vec<Case> {
    let line = |length: usize| get(&format!("/{}", "x".repeat(length - "GET / HTTP/1.1".len())));
    let headers = |count: usize| {
        let more: String = (1..count).map(|n| format!("X-{n}: y\r\n")).collect();
        lines("GET /health HTTP/1.1", &more)
    };
    let head = |size: usize| {
        let without = lines("GET /health HTTP/1.1", "X: \r\n").len();
        let raw = lines("GET /health HTTP/1.1", &format!("X: {}\r\n", "y".repeat(size - without)));
        assert_eq!(raw.len(), size);
        raw
    };
    let too_large = |raw| (raw, 431, "REQUEST_HEADER_TOO_LARGE", false);
    vec![
        (line(REQUEST_LINE_BYTES_MAX), 404, "NOT_FOUND", true),
        too_large(line(REQUEST_LINE_BYTES_MAX + 1)),
        // The server refuses these before the line ends.
        too_large(vec![b'x'; REQUEST_LINE_BYTES_MAX + 1]),
        (headers(HEAD_LINES_MAX), 200, "", true),
        too_large(headers(HEAD_LINES_MAX + 1)),
        (head(HEAD_BYTES_MAX), 200, "", true),
        too_large(head(HEAD_BYTES_MAX + 1)),
        too_large(head(4 * HEAD_BYTES_MAX)),
    ]
}

fn head_requests() -> Vec<Case> {
    let head = |path: &str| lines(&format!("HEAD {path} HTTP/1.1"), "");
    vec![
        (head("/health"), 200, "", true),
        (head("/status"), 200, "", true),
        (head("/sign/status/x"), 400, "", true),
        (head("/sign"), 405, "", true),
        (head("/nowhere"), 404, "", true),
        (lines("HEAD /health HTTP/1.1", "Origin: null\r\n"), 403, "", true),
    ]
}

fn all_cases() -> Vec<Case> {
    [versions_and_protocols(), paths_and_methods(), bodies(), bounds(), head_requests()].concat()
}

#[tokio::test]
async fn t_40_every_request_form_has_its_specified_answer() {
    let stage = Stage::new(UNLIMITED).await;
    let before = stage.head().await;
    for (raw, status, code, accepts_another_request) in all_cases() {
        let shown = String::from_utf8_lossy(&raw[..raw.len().min(200)]).into_owned();
        let mut caller = RawClient::to(stage.address).await;
        let reply = caller.ask(&raw).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{shown:?}: {reply:?}");
        assert_eq!(reply.closes_connection(), !accepts_another_request, "{shown:?}: {reply:?}");
        assert_eq!(caller.accepts_another_request().await, accepts_another_request, "{shown:?}");
        for (name, value) in [
            ("content-type", "application/json"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{shown:?}");
        }
        assert!(reply.header("server").is_none() && reply.header("date").is_none());
        let refused = !code.is_empty() && !matches!(status, 405);
        assert_eq!(reply.json()["status"] == "error", refused, "{shown:?}: {reply:?}");
        assert_eq!(stage.head().await, before, "{shown:?}");
    }
}

#[tokio::test]
async fn t_40_the_answer_does_not_depend_on_how_the_bytes_are_split() {
    let stage = Stage::new(UNLIMITED).await;
    let small = all_cases().into_iter().filter(|(raw, ..)| raw.len() < 300);
    for (raw, status, code, accepts_another_request) in small {
        let shown = String::from_utf8_lossy(&raw).into_owned();
        let mut caller = RawClient::to(stage.address).await;
        caller.send_bytewise(&raw).await;
        let reply = caller.reply(raw.starts_with(b"HEAD ")).await.expect("an answer");
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{shown:?}: {reply:?}");
        assert_eq!(caller.accepts_another_request().await, accepts_another_request, "{shown:?}");
    }
}

#[tokio::test]
async fn t_40_pipelined_requests_are_answered_in_order() {
    let stage = Stage::new(UNLIMITED).await;
    let mut caller = RawClient::to(stage.address).await;
    let mut sent = Vec::new();
    for n in 0..20 {
        sent.extend(post("/sign", "", &stage.payable(n)));
        sent.extend(get("/health"));
        sent.extend(lines("HEAD /health HTTP/1.1", ""));
        sent.extend(post("/ping", "", "[]"));
    }
    caller.send(&sent).await;
    let mut paid = std::collections::BTreeSet::new();
    for _n in 0..20 {
        let reply = caller.reply(false).await.expect("an answer");
        assert_eq!((reply.status, &reply.json()["status"]), (200, &"success".into()), "{reply:?}");
        paid.insert(reply.json()["transaction_id"].to_string());
        assert_eq!(caller.reply(false).await.expect("an answer").status, 200);
        assert_eq!(caller.reply(true).await.expect("an answer").status, 200);
        assert_eq!(caller.reply(false).await.expect("an answer").code(), "INVALID_JSON");
    }
    assert_eq!(paid.len(), 20);
    assert!(caller.accepts_another_request().await);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let stage = Stage::new(UNLIMITED).await;
    for path in ["/health", "/nowhere", "/sign"] {
        let mut caller = RawClient::to(stage.address).await;
        let get = caller.ask(&get(path)).await;
        let head = caller.ask(&lines(&format!("HEAD {path} HTTP/1.1"), "")).await;
        assert_eq!((get.status, &get.headers), (head.status, &head.headers), "{path}");
        assert!(!get.body.is_empty() && head.body.is_empty());
    }
}

#[tokio::test]
async fn t_40_continue_is_sent_only_when_the_body_is_accepted() {
    let stage = Stage::new(UNLIMITED).await;
    let expecting = |path: &str, length: usize| {
        let more = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n");
        lines(&format!("POST {path} HTTP/1.1"), &more)
    };
    let body = stage.payable(1);
    let mut caller = RawClient::to(stage.address).await;
    assert_eq!(caller.ask(&expecting("/sign", body.len())).await.status, 100);
    let reply = caller.ask(body.as_bytes()).await;
    assert_eq!(reply.json()["status"], "success", "{reply:?}");
    assert!(caller.accepts_another_request().await);
    for (raw, status) in [
        (expecting("/nowhere", 5), 404),
        (expecting("/sign", BODY_BYTES_MAX + 1), 413),
        (
            lines(
                "POST /sign HTTP/1.1",
                "Content-Length: 5\r\nExpect: 100-continue\r\nOrigin: null\r\n",
            ),
            403,
        ),
    ] {
        let mut caller = RawClient::to(stage.address).await;
        assert_eq!(caller.ask(&raw).await.status, status);
        assert!(!caller.accepts_another_request().await);
    }
}

#[tokio::test]
async fn a_stopping_server_closes_idle_connections_and_its_listener() {
    let stage = Stage::new(UNLIMITED).await;
    let mut idle = RawClient::to(stage.address).await;
    assert_eq!(idle.ask(&get("/health")).await.status, 200);
    let mut fresh = RawClient::to(stage.address).await;
    assert_eq!(fresh.ask(&get("/health")).await.status, 200);
    stage.server.stop(std::time::Duration::from_secs(60)).await;
    assert!(idle.reply(false).await.is_none());
    assert!(!fresh.accepts_another_request().await);
    assert!(tokio::net::TcpStream::connect(stage.address).await.is_err());
}
