use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::sleep;

use super::super::progress::Progress;
use super::*;

#[tokio::test(start_paused = true)]
async fn t_40_a_connection_without_a_request_is_closed_without_a_response() {
    let idle = bounds().idle_ms_max;
    let mut peer = Peer::new();
    assert_eq!(peer.read_to_end().await, (String::new(), idle));
    let mut peer = Peer::new();
    sleep(Duration::from_millis(idle - 1)).await;
    peer.send(&format!("{POST}Content-Length: 2\r\n\r\nok")).await;
    peer.assert_answered("ok").await;
    assert_eq!(peer.read_to_end().await, (String::new(), 2 * idle - 1));
}

#[tokio::test(start_paused = true)]
async fn t_40_the_head_timeout_starts_at_its_first_byte() {
    let head = bounds().head.ms_max;
    let mut peer = Peer::new();
    sleep(Duration::from_millis(20_000)).await;
    peer.send("G").await;
    assert_eq!(peer.assert_refused(Refusal::Timeout).await, 20_000 + head);
    // A byte each second does not extend the limit.
    let mut peer = Peer::new();
    for byte in ["P", "O", "S", "T", " "] {
        peer.send(byte).await;
        sleep(Duration::from_millis(999)).await;
    }
    assert_eq!(peer.assert_refused(Refusal::Timeout).await, head);
    // The second head of a connection has the same limit.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 2\r\n\r\nokP")).await;
    peer.assert_answered("ok").await;
    assert_eq!(peer.assert_refused(Refusal::Timeout).await, head);
}

#[tokio::test(start_paused = true)]
async fn t_40_a_body_has_a_lowest_rate_and_a_total_timeout() {
    let body = bounds().body;
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 9\r\n\r\n")).await;
    assert_eq!(peer.assert_refused(Refusal::Timeout).await, body.grace_ms);
    // Each byte that arrives extends the deadline by the time that it takes at the lowest rate.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 100000\r\n\r\n")).await;
    let part = "x".repeat(usize::try_from(body.bytes_per_s_min * 2).unwrap());
    peer.send(&part).await;
    let after = peer.assert_refused(Refusal::Timeout).await;
    assert!((body.grace_ms..=body.grace_ms + 2_000).contains(&after), "{after}");
    // A body at exactly the lowest rate is accepted.
    let mut peer = Peer::new();
    let second = "x".repeat(usize::try_from(body.bytes_per_s_min).unwrap());
    peer.send(&format!("{POST}Content-Length: {}\r\n\r\n", second.len() * 8)).await;
    for _part in 0..8 {
        sleep(Duration::from_millis(990)).await;
        peer.send(&second).await;
    }
    peer.assert_answered(&second.repeat(8)).await;
    // A body far above the lowest rate is refused once its total time is too long.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 1000000\r\n\r\n")).await;
    for _part in 0..body.ms_max / 1_000 - 1 {
        peer.send(&"x".repeat(0x3000)).await;
        sleep(Duration::from_millis(1_000)).await;
    }
    assert_eq!(peer.assert_refused(Refusal::Timeout).await, body.ms_max);
}

#[tokio::test(start_paused = true)]
async fn t_40_a_peer_that_does_not_read_is_disconnected() {
    let mut peer = Peer::for_router(router(), bounds(), 64);
    peer.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(peer.wait_until_dropped().await, bounds().write_ms_max);
}

#[tokio::test(start_paused = true)]
async fn t_40_what_arrives_after_the_last_response_is_discarded_within_a_bound() {
    let bounds = || Bounds { linger_bytes_max: 200_000, ..bounds() };
    let unread = |length: usize| format!("POST /deaf HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
    let mut peer = Peer::for_router(router(), bounds(), 1024);
    peer.send(&unread(100_000)).await;
    peer.send(&"x".repeat(100_000)).await;
    let (read, _after) = peer.read_to_end().await;
    assert!(read.contains("\r\nconnection: close\r\n") && read.ends_with("unread"), "{read}");
    // A peer that never stops sending is cut off, by volume or by time.
    let mut peer = Peer::for_router(router(), bounds(), 1024);
    peer.send(&unread(1_000_000)).await;
    assert!(peer.stream.write_all(&vec![b'x'; 1_000_000]).await.is_err());
    let mut peer = Peer::for_router(router(), bounds(), 1024);
    peer.send(&unread(9)).await;
    assert_eq!(peer.wait_until_dropped().await, bounds().linger_ms_max);
}

#[tokio::test(start_paused = true)]
async fn t_40_an_unread_body_is_not_waited_for() {
    let mut peer = Peer::new();
    peer.send("POST /deaf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n").await;
    let (read, after) = peer.read_to_end().await;
    assert!(read.starts_with("HTTP/1.1 200 OK\r\n"), "{read}");
    assert!(read.contains("\r\nconnection: close\r\n"), "{read}");
    assert_eq!(after, 0);
}

#[tokio::test(start_paused = true)]
async fn t_40_continue_is_sent_only_when_the_body_is_wanted() {
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")).await;
    let mut read = [0; 25];
    peer.stream.read_exact(&mut read).await.unwrap();
    assert_eq!(&read, b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("ok").await;
    peer.assert_answered("ok").await;
    let mut peer = Peer::new();
    let head = "POST /deaf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n";
    peer.send(&format!("{head}Expect: 100-continue\r\n\r\n")).await;
    assert!(peer.read_to_end().await.0.starts_with("HTTP/1.1 200 OK\r\n"));
    let mut peer = Peer::new();
    let size = BODY_MAX + 1;
    peer.send(&format!("{POST}Content-Length: {size}\r\nExpect: 100-continue\r\n\r\n")).await;
    assert!(peer.read_to_end().await.0.starts_with("HTTP/1.1 413 "));
}

#[tokio::test(start_paused = true)]
async fn t_40_an_invalid_body_is_refused_before_its_route_runs() {
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    let count = move || async move { counted.fetch_add(1, Ordering::SeqCst) }.map_string();
    let router = Router::new().route("/count", post(count));
    let mut peer = Peer::for_router(router, bounds(), 1 << 20);
    let head = "POST /count HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    peer.send(&format!("{head}2;x=y\r\n{{}}\r\n0\r\n\r\nGET /count HTTP/1.1\r\n\r\n")).await;
    peer.assert_refused(Refusal::Malformed).await;
    assert_eq!(reached.load(Ordering::SeqCst), 0);
    // The same happens while the route waits for the body.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}")).await;
    sleep(Duration::from_millis(10)).await;
    peer.send("\n0\r\n\r\n").await;
    peer.assert_refused(Refusal::Malformed).await;
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 9\r\n\r\nhalf")).await;
    peer.stream.shutdown().await.unwrap();
    peer.assert_refused(Refusal::Malformed).await;
}

/// Formats a number as a response.
trait MapString {
    fn map_string(self) -> impl Future<Output = String> + Send;
}

impl<F: Future<Output = usize> + Send> MapString for F {
    async fn map_string(self) -> String {
        self.await.to_string()
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_that_never_responds_is_timed_out() {
    let bounds = Bounds { handler_ms: Some(30_000), ..bounds() };
    let mut peer = Peer::for_router(router(), bounds.clone(), 1 << 20);
    peer.send("GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(peer.assert_refused(Refusal::Busy).await, 30_000);
    let mut peer = Peer::for_router(router(), bounds, 1 << 20);
    peer.send("HEAD /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let (read, _after) = peer.read_to_end().await;
    assert!(read.starts_with("HTTP/1.1 503 ") && read.ends_with("\r\n\r\n"), "{read}");
}

/// Once a route has claimed its response, only the route may respond: the edge does not send its refusal at 30 s.
#[tokio::test(start_paused = true)]
async fn the_edge_never_responds_for_a_route_that_claimed_its_response() {
    let bounds = Bounds { handler_ms: Some(30_000), ..bounds() };
    let claiming = |pause_ms: u64| {
        move |request: Request| async move {
            let claim = request.extensions().get::<ResponseClaim>().unwrap().clone();
            assert!(claim.claim());
            sleep(Duration::from_millis(pause_ms)).await;
            format!("{}", claim.began_ms())
        }
    };
    let router = Router::new()
        .route("/slow", get(claiming(31_000)))
        .route("/stuck", get(claiming(3_600_000)));
    let mut peer = Peer::for_router(router.clone(), bounds.clone(), 1 << 20);
    peer.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut read = String::new();
    while !read.contains("\r\n\r\n") {
        let mut part = [0; 4096];
        let count = peer.stream.read(&mut part).await.unwrap();
        assert_ne!(count, 0, "the server closed: {read}");
        read.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    assert!(read.starts_with("HTTP/1.1 200 "), "{read}");
    let mut peer = Peer::for_router(router, bounds, 1 << 20);
    peer.send("GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(peer.read_to_end().await, (String::new(), 60_000), "no response, not a false one");
}

#[tokio::test(start_paused = true)]
async fn a_route_learns_that_the_edge_has_responded() {
    let mut progress = Progress::new(0);
    progress.refuse(Refusal::Busy, 1);
    assert!(!progress.claim());
    let mut progress = Progress::new(0);
    assert!(progress.claim());
}

#[tokio::test(start_paused = true)]
async fn t_24_routes_know_both_ends_of_the_connection() {
    let mut peer = Peer::new();
    peer.send("GET /ends HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    peer.assert_answered("127.0.0.1:5 127.0.0.1:9402").await;
}

#[tokio::test(start_paused = true)]
async fn pipelined_requests_are_answered_in_order() {
    let mut peer = Peer::new();
    let texts: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let length = |text: &String| format!("{POST}Content-Length: {}\r\n\r\n{text}", text.len());
    let sent: String = texts.iter().map(length).collect();
    peer.send(&sent).await;
    let mut read = String::new();
    while read.matches("HTTP/1.1 200 OK").count() < 50 || !read.ends_with("\r\n\r\n49") {
        let mut part = [0; 4096];
        let count = peer.stream.read(&mut part).await.unwrap();
        assert_ne!(count, 0, "the server closed: {read}");
        read.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    let bodies: Vec<&str> =
        read.split("HTTP/1.1 ").skip(1).map(|one| one.rsplit("\r\n\r\n").next().unwrap()).collect();
    assert_eq!(bodies, texts);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_closes_connections_without_a_request() {
    for sent in ["", "GET /health HTTP", "GET /ends HTTP/1.1\r\n\r\n"] {
        let mut peer = Peer::new();
        peer.send(sent).await;
        sleep(Duration::from_millis(10)).await;
        peer.shared.slots.stop();
        let (read, after) = peer.read_to_end().await;
        assert_eq!((after, read.is_empty()), (10, !sent.ends_with('\n')), "{sent}");
    }
    // A body has half a second to arrive.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 100000\r\n\r\n")).await;
    sleep(Duration::from_millis(10)).await;
    peer.shared.slots.stop();
    let mut paced = 0;
    while paced < 20 && peer.stream.write_all(&[b'x'; 100]).await.is_ok() {
        sleep(Duration::from_millis(100)).await;
        paced += 1;
    }
    assert_eq!(peer.read_to_end().await.0, "");
    assert!((5..=7).contains(&paced), "{paced}");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_finishes_requests_in_progress() {
    let (go, wait) = tokio::sync::watch::channel(false);
    let reached = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&reached);
    let slow = move || async move {
        told.notify_one();
        wait.clone().wait_for(|go| *go).await.unwrap();
        "done"
    };
    let mut peer = Peer::for_router(Router::new().route("/slow", get(slow)), bounds(), 1 << 20);
    peer.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    reached.notified().await;
    peer.shared.slots.stop();
    sleep(Duration::from_millis(5_000)).await;
    go.send(true).unwrap();
    let (read, _after) = peer.read_to_end().await;
    assert!(read.contains("\r\nconnection: close\r\n") && read.ends_with("done"), "{read}");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_connection_reads_no_further_request() {
    let shared = Arc::new(ServerState::new(router(), edge(Bounds { slots_max: 2, ..bounds() })));
    let mut first = Peer::for_server(Arc::clone(&shared), 1024);
    first.send("GET /ends HT").await;
    sleep(Duration::from_millis(10)).await;
    let mut others =
        [Peer::for_server(Arc::clone(&shared), 1024), Peer::for_server(Arc::clone(&shared), 1024)];
    assert_eq!(first.read_to_end().await, (String::new(), 10));
    for other in &mut others {
        other.send("GET /ends HTTP/1.1\r\n\r\n").await;
        other.assert_answered("127.0.0.1:5 127.0.0.1:9402").await;
    }
    // A slow body is evicted too.
    let shared = Arc::new(ServerState::new(router(), edge(Bounds { slots_max: 1, ..bounds() })));
    let mut body = Peer::for_server(Arc::clone(&shared), 1024);
    body.send(&format!("{POST}Content-Length: 9\r\n\r\nx")).await;
    sleep(Duration::from_millis(10)).await;
    let _next = Peer::for_server(shared, 1024);
    assert_eq!(body.read_to_end().await, (String::new(), 10));
}

#[tokio::test(start_paused = true)]
async fn all_bodies_share_one_memory_limit() {
    let mut few = bounds();
    (few.body.uncounted_bytes, few.body.incomplete_bytes_max) = (1_000, 10_000);
    let shared = Arc::new(ServerState::new(router(), edge(few)));
    let head = format!("{POST}Content-Length: 9000\r\n\r\n");
    // A slow body is evicted if another request needs memory, whether the other body arrives with its head or after
    // it.
    let mut slow = Peer::for_server(Arc::clone(&shared), 1 << 20);
    slow.send(&head).await;
    slow.send(&"x".repeat(8_000)).await;
    sleep(Duration::from_millis(10)).await;
    let mut whole = Peer::for_server(Arc::clone(&shared), 1 << 20);
    whole.send(&head).await;
    whole.send(&"y".repeat(9_000)).await;
    whole.assert_answered(&"y".repeat(9_000)).await;
    assert_eq!(slow.read_to_end().await, (String::new(), 10));
    // A body larger than all memory is refused.
    let mut large = Peer::for_server(shared, 1 << 20);
    large.send(&format!("{POST}Content-Length: 20000\r\n\r\n")).await;
    large.send(&"x".repeat(20_000)).await;
    large.assert_refused(Refusal::Busy).await;
    // The memory of the refused request is free again, and the earlier connection is still served.
    whole.send(&head).await;
    whole.send(&"z".repeat(9_000)).await;
    whole.assert_answered(&"z".repeat(9_000)).await;
}

#[tokio::test(start_paused = true)]
async fn a_leaving_peer_cancels_its_request_unless_half_close_is_on() {
    let (sender, mut dropped) = tokio::sync::mpsc::channel::<()>(1);
    let hang = move || {
        let held = sender.clone();
        async move {
            std::future::pending::<()>().await;
            drop(held);
        }
    };
    let router = || Router::new().route("/hang", get(hang.clone()));
    let mut peer = Peer::for_router(router(), bounds(), 1024);
    peer.send("GET /hang HTTP/1.1\r\n\r\n").await;
    sleep(Duration::from_millis(10)).await;
    drop(peer.stream);
    peer.serving.await.unwrap();
    drop((hang, peer.shared));
    assert_eq!(dropped.recv().await, None);
    let half = Bounds { allow_half_close: true, ..bounds() };
    let mut peer = Peer::for_router(super::router(), half, 1024);
    peer.send("GET /ends HTTP/1.1\r\n\r\n").await;
    peer.stream.shutdown().await.unwrap();
    assert!(peer.read_to_end().await.0.ends_with("127.0.0.1:9402"));
}
