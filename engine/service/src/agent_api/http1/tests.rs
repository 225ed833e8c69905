//! The waits, on a clock that jumps to whatever is waited for; and what the routes are given.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::{get, post};
use bursar_core::limits::{
    BODY_BYTES, BODY_BYTES_PER_S, BODY_GRACE_MS, BODY_MS, HEAD_MS, LARGE_BODIES,
    LARGE_BODIES_REMOTE, LINGER_BYTES, LINGER_MS, SMALL_BODY_BYTES, WRITE_MS,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use super::connections::Connections;
use super::*;

const POST: &str = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";

/// A peer of one connection, and the server's end of it.
struct Peer {
    stream: DuplexStream,
    connections: Arc<Connections>,
    serving: tokio::task::JoinHandle<()>,
    began: Instant,
}

fn router() -> Router {
    Router::new()
        .route(
            "/echo",
            post(|body: Body| async { axum::body::to_bytes(body, BODY_BYTES).await.unwrap() }),
        )
        .route("/deaf", post(|| async { "not looked at" }))
        .route("/stuck", get(std::future::pending::<()>))
        .route("/ends", get(ends))
        .route("/long", get(|| async { "x".repeat(10_000) }))
}

async fn ends(request: Request<Body>) -> String {
    let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>().unwrap();
    let LocalAddress(local) = request.extensions().get().unwrap();
    format!("{peer} {local}")
}

impl Peer {
    /// `room` is what the server can write before the peer reads.
    fn with(router: Router, room: usize) -> Self {
        let (stream, server) = tokio::io::duplex(room);
        let ends = Ends { peer: ([127, 0, 0, 1], 5).into(), local: ([127, 0, 0, 1], 9402).into() };
        let connections = Arc::new(Connections::default());
        let seat = connections.admit(ends.peer.ip()).unwrap();
        let serving = tokio::spawn(serve(server, ends, router, seat));
        Self { stream, connections, serving, began: Instant::now() }
    }

    fn new() -> Self {
        Self::with(router(), 1 << 20)
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// All that comes until the server ends its side, and when it did.
    async fn heard(&mut self) -> (String, u64) {
        let mut heard = String::new();
        self.stream.read_to_string(&mut heard).await.unwrap();
        (heard, u64::try_from(self.began.elapsed().as_millis()).unwrap())
    }

    async fn refused(&mut self, status: u16, code: Code) -> u64 {
        let (heard, after) = self.heard().await;
        let last = heard.rsplit("HTTP/1.1 ").next().unwrap();
        assert!(last.starts_with(&status.to_string()), "{heard}");
        assert!(last.contains("\r\nconnection: close\r\n"), "{heard}");
        assert!(last.contains(&format!("\"code\":\"{code}\"")), "{heard}");
        after
    }

    /// The next answer with a body of that text.
    async fn answered(&mut self, body: &str) {
        let mut heard = Vec::new();
        while !heard.ends_with(format!("\r\n\r\n{body}").as_bytes()) {
            assert_ne!(self.stream.read_buf(&mut heard).await.unwrap(), 0, "the server hung up");
        }
        assert!(heard.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn t_40_a_connection_without_a_request_is_closed_without_a_word() {
    let mut peer = Peer::new();
    assert_eq!(peer.heard().await, (String::new(), IDLE_MS));
    let mut peer = Peer::new();
    sleep(Duration::from_millis(IDLE_MS - 1)).await;
    peer.send(&format!("{POST}Content-Length: 2\r\n\r\nok")).await;
    peer.answered("ok").await;
    assert_eq!(peer.heard().await, (String::new(), 2 * IDLE_MS - 1));
}

#[tokio::test(start_paused = true)]
async fn t_40_a_head_has_five_seconds_from_its_first_byte() {
    let mut peer = Peer::new();
    sleep(Duration::from_millis(20_000)).await;
    peer.send("G").await;
    assert_eq!(peer.refused(408, Code::RequestTimeout).await, 20_000 + HEAD_MS);
    // One byte a second buys nothing.
    let mut peer = Peer::new();
    for byte in ["P", "O", "S", "T", " "] {
        peer.send(byte).await;
        sleep(Duration::from_millis(999)).await;
    }
    assert_eq!(peer.refused(408, Code::RequestTimeout).await, HEAD_MS);
}

#[tokio::test(start_paused = true)]
async fn t_40_a_body_has_ten_seconds_and_a_pace() {
    // Nothing at all.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 9\r\n\r\n")).await;
    assert_eq!(peer.refused(408, Code::RequestTimeout).await, BODY_GRACE_MS);
    // A first part buys as long as its size is worth.
    let mut peer = Peer::new();
    let part = "x".repeat(usize::try_from(BODY_BYTES_PER_S * 2).unwrap());
    peer.send(&format!("{POST}Content-Length: 100000\r\n\r\n{part}")).await;
    assert_eq!(peer.refused(408, Code::RequestTimeout).await, BODY_GRACE_MS + 2_000);
    // In time, in the slowest way there is.
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 4096\r\n\r\n")).await;
    for _part in 0..4 {
        sleep(Duration::from_millis(950)).await;
        peer.send(&"x".repeat(1024)).await;
    }
    peer.answered(&"x".repeat(4096)).await;
}

#[tokio::test(start_paused = true)]
async fn t_40_a_body_is_not_outlived_by_a_steady_sender() {
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 1000000\r\n\r\n")).await;
    // Far ahead of the pace that is asked for.
    for _part in 0..9 {
        peer.send(&"x".repeat(0x4000)).await;
        sleep(Duration::from_millis(1000)).await;
    }
    assert_eq!(peer.refused(408, Code::RequestTimeout).await, BODY_MS);
}

#[tokio::test(start_paused = true)]
async fn t_40_what_still_comes_after_a_refusal_is_read_away_within_a_bound() {
    let refused =
        |length: usize| format!("POST /deaf HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
    // Who sends all of it before it listens gets its answer.
    let mut peer = Peer::with(router(), 1024);
    let body = "x".repeat(100_000);
    peer.send(&refused(body.len())).await;
    peer.send(&body).await;
    let (heard, _after) = peer.heard().await;
    assert!(heard.ends_with("\r\n\r\nnot looked at"), "{heard}");
    // Who never stops, by volume or by time, is left.
    let mut peer = Peer::with(router(), 1024);
    peer.send(&refused(2 * LINGER_BYTES)).await;
    let endless = vec![b'x'; 2 * LINGER_BYTES];
    assert!(peer.stream.write_all(&endless).await.is_err());
    let mut peer = Peer::with(router(), 1024);
    peer.send(&refused(9)).await;
    (&mut peer.serving).await.unwrap();
    assert_eq!(peer.began.elapsed(), Duration::from_millis(LINGER_MS));
}

#[tokio::test(start_paused = true)]
async fn t_40_a_peer_that_does_not_read_is_left() {
    let mut peer = Peer::with(router(), 64);
    peer.send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    (&mut peer.serving).await.unwrap();
    assert_eq!(peer.began.elapsed(), Duration::from_millis(WRITE_MS));
}

#[tokio::test(start_paused = true)]
async fn t_24_the_routes_are_told_both_ends_of_the_connection() {
    let mut peer = Peer::new();
    peer.send("GET /ends HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    peer.answered("127.0.0.1:5 127.0.0.1:9402").await;
}

#[tokio::test(start_paused = true)]
async fn a_call_without_end_is_told_to_try_again() {
    let mut peer = Peer::new();
    peer.send("GET /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let after = peer.refused(503, Code::Busy).await;
    assert_eq!(after, HANDLER_MS);
    let mut peer = Peer::new();
    peer.send("HEAD /stuck HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let (heard, _after) = peer.heard().await;
    assert!(heard.starts_with("HTTP/1.1 503 ") && heard.ends_with("\r\n\r\n"), "{heard}");
}

#[tokio::test(start_paused = true)]
async fn t_40_a_body_that_nobody_looks_at_is_not_waited_for() {
    let mut peer = Peer::new();
    peer.send("POST /deaf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n").await;
    let (heard, after) = peer.heard().await;
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
    assert!(heard.contains("\r\nconnection: close\r\n"), "{heard}");
    assert_eq!(after, 0);
}

#[tokio::test(start_paused = true)]
async fn t_40_who_waits_for_a_word_gets_it_only_when_the_body_is_wanted() {
    let mut peer = Peer::new();
    peer.send(&format!("{POST}Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")).await;
    let mut heard = [0; 25];
    peer.stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"HTTP/1.1 100 Continue\r\n\r\n");
    peer.send("ok").await;
    peer.answered("ok").await;
    let mut peer = Peer::new();
    let head = "POST /deaf HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n";
    peer.send(&format!("{head}Expect: 100-continue\r\n\r\n")).await;
    assert!(peer.heard().await.0.starts_with("HTTP/1.1 200 OK\r\n"));
    let mut peer = Peer::new();
    let size = BODY_BYTES + 1;
    peer.send(&format!("{POST}Content-Length: {size}\r\nExpect: 100-continue\r\n\r\n")).await;
    assert!(peer.heard().await.0.starts_with("HTTP/1.1 413 "));
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_answers_what_it_has_begun_and_closes() {
    let reached = Arc::new(AtomicUsize::new(0));
    let (go, told) = tokio::sync::watch::channel(false);
    let counted = Arc::clone(&reached);
    let slow = move || async move {
        counted.fetch_add(1, Ordering::SeqCst);
        told.clone().wait_for(|go| *go).await.unwrap();
        "done"
    };
    let mut peer = Peer::with(Router::new().route("/slow", get(slow)), 1 << 20);
    peer.send("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    while reached.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    peer.connections.close();
    go.send(true).unwrap();
    let (heard, _after) = peer.heard().await;
    assert!(heard.ends_with("\r\nconnection: close\r\n\r\ndone"), "{heard}");
    let mut idle = Peer::new();
    tokio::task::yield_now().await;
    idle.connections.close();
    assert_eq!(idle.heard().await, (String::new(), 0));
}

#[tokio::test]
async fn large_bodies_wait_outside_once_enough_of_them_are_in_memory() {
    let small = SMALL_BODY_BYTES;
    let mut peer = Peer::new();
    let connections = Arc::clone(&peer.connections);
    let seats: Vec<Seat> =
        (0..LARGE_BODIES).map(|_n| connections.admit([127, 0, 0, 1].into()).unwrap()).collect();
    let mut rooms: Vec<_> = seats.iter().map(Seat::room).collect();
    for room in &mut rooms {
        assert!(room.grow(small + 1).is_ok());
    }
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    let body = |bytes: usize| {
        let text = "x".repeat(bytes);
        [
            format!("{POST}Content-Length: {bytes}\r\n\r\n{text}"),
            format!("{POST}{chunked}{bytes:x}\r\n{text}\r\n0\r\n\r\n"),
        ]
    };
    // What has come of a small one takes no room, however it is framed and announced.
    for text in body(small / 2) {
        peer.send(&text).await;
        peer.answered(&"x".repeat(small / 2)).await;
    }
    rooms.pop();
    for text in body(small * 2) {
        peer.send(&text).await;
        // The second finds the room that the first has left.
        peer.answered(&"x".repeat(small * 2)).await;
    }
    let mut again = seats[0].room();
    assert!(again.grow(small + 1).is_ok());
    let [text, _chunked] = body(small * 2);
    peer.send(&text).await;
    peer.refused(503, Code::Busy).await;
}

#[tokio::test]
async fn other_machines_leave_room_for_the_programs_of_this_one() {
    let connections = Arc::new(Connections::default());
    let seats: Vec<_> = (0..=LARGE_BODIES_REMOTE)
        .map(|n| connections.admit([192, 168, 1, u8::try_from(n).unwrap()].into()).unwrap())
        .collect();
    let mut rooms: Vec<_> = seats.iter().map(Seat::room).collect();
    let (last, others) = rooms.split_last_mut().unwrap();
    for room in others {
        assert!(room.grow(SMALL_BODY_BYTES + 1).is_ok());
    }
    assert_eq!(last.grow(SMALL_BODY_BYTES + 1), Err(Code::Busy));
    assert!(last.grow(SMALL_BODY_BYTES).is_ok());
    let local = connections.admit([127, 0, 0, 1].into()).unwrap();
    assert!(local.room().grow(SMALL_BODY_BYTES + 1).is_ok());
}
