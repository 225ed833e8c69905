//! Requests that two parsers read differently: each is refused, and nothing after it is parsed as a request.

use crate::agent_server::stage::{Stage, UNLIMITED, post};
use bursar_tests::framings::{CHUNKS, FRAMINGS};
use bursar_tests::raw::RawClient;

/// Asserts a refusal with `code`, and that the server ignores the bytes after it.
async fn assert_refused(stage: &Stage, raw: &[u8], code: &str) {
    let shown = String::from_utf8_lossy(raw);
    let mut caller = RawClient::to(stage.address).await;
    let smuggled = post("/sign", "", &stage.payable(99));
    let reply = caller.ask(&[raw, &smuggled[..]].concat()).await;
    assert_eq!(reply.code(), code, "{shown:?}: {reply:?}");
    assert_eq!(reply.json()["status"], "error", "{shown:?}");
    assert!(reply.closes_connection(), "{shown:?}: {reply:?}");
    assert!(!caller.accepts_another_request().await, "{shown:?}");
}

#[tokio::test]
async fn t_40_every_ambiguous_framing_is_refused() {
    let stage = Stage::new(UNLIMITED).await;
    let before = stage.head().await;
    for (lines, body, code) in FRAMINGS {
        let raw = format!("POST /sign HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n\r\n{body}");
        assert_refused(&stage, raw.as_bytes(), code).await;
        assert_eq!(stage.head().await, before, "{lines:?}");
    }
    for (chunks, code) in CHUNKS {
        let head = "POST /sign HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_refused(&stage, format!("{head}{chunks}").as_bytes(), code).await;
        assert_eq!(stage.head().await, before, "{chunks:?}");
    }
    let old =
        "POST /sign HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_refused(&stage, old.as_bytes(), "BAD_REQUEST").await;
    assert_eq!(stage.head().await, before);
}

#[tokio::test]
async fn t_40_an_unexpected_body_is_never_parsed_as_a_request() {
    let stage = Stage::new(UNLIMITED).await;
    let before = stage.head().await;
    let smuggled = String::from_utf8(post("/sign", "", &stage.payable(1))).expect("text");
    for method in ["GET", "HEAD"] {
        for framing in [
            format!("Content-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
            format!(
                "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
                smuggled.len()
            ),
        ] {
            let mut caller = RawClient::to(stage.address).await;
            let raw = format!("{method} /health HTTP/1.1\r\nHost: localhost\r\n{framing}");
            let reply = caller.ask(raw.as_bytes()).await;
            assert_eq!(reply.status, 400, "{raw}: {reply:?}");
            assert!(reply.closes_connection());
            // Whether or not the answer to the HEAD request has a body, the server parsed no
            // request from the smuggled bytes.
            assert_eq!(stage.head().await, before, "{raw}");
        }
    }
    // Bytes that were read as a body are not parsed as a request, whatever they look like.
    let mut caller = RawClient::to(stage.address).await;
    let reply = caller.ask(&post("/ping", "", &smuggled)).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "INVALID_JSON"));
    assert!(caller.accepts_another_request().await);
    assert_eq!(stage.head().await, before);
    // An unread body is not parsed as the next request either.
    for path in ["/nowhere", "/health"] {
        let mut caller = RawClient::to(stage.address).await;
        let reply = caller.ask(&post(path, "", &smuggled)).await;
        assert!(reply.status == 404 || reply.status == 405, "{reply:?}");
        assert!(!caller.accepts_another_request().await, "{path}");
        assert_eq!(stage.head().await, before, "{path}");
    }
}
