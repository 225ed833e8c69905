//! One connection on a clock that skips waits, and deliveries over real sockets.

mod delivery;
mod waits;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::routing::{get, post};
use bursar_chain::clock::paused::PausedClock;
use bursar_core::time::Utc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::Instant;

use super::edge::ServerState;
use super::service::ConnectionAddresses;
use super::*;

pub(super) const POST: &str = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
/// Longer than any limit of the server. The clock skips waits, so the test does not take this long.
const PATIENCE: Duration = Duration::from_secs(3_600);
pub(super) const BODY_MAX: usize = 1 << 20;

pub(super) fn bounds() -> Bounds {
    let mut bounds = Bounds::public(8);
    bounds.body.bytes_max = u64::try_from(BODY_MAX).unwrap();
    bounds
}

pub(super) fn edge(bounds: Bounds) -> Edge {
    Edge { bounds, refuse: plain_refusal(), clock: Arc::new(PausedClock::new(Utc(0))) }
}

pub(super) fn router() -> Router {
    let echo = |body: Body| async { axum::body::to_bytes(body, BODY_MAX).await.unwrap() };
    Router::new()
        .route("/echo", post(echo))
        .route("/deaf", post(|| async { "unread" }))
        .route("/stuck", get(std::future::pending::<()>))
        .route("/ends", get(respond_when_body_ends))
        .route("/long", get(|| async { "x".repeat(10_000) }))
}

async fn respond_when_body_ends(request: Request) -> String {
    let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>().unwrap();
    let LocalAddress(local) = request.extensions().get().unwrap();
    format!("{peer} {local}")
}

/// The peer of one connection, and the server's side of it.
pub(super) struct Peer {
    pub(super) stream: DuplexStream,
    pub(super) shared: Arc<ServerState>,
    pub(super) serving: tokio::task::JoinHandle<()>,
    pub(super) started: Instant,
}

impl Peer {
    pub(super) fn new() -> Self {
        Self::for_router(router(), bounds(), 1 << 20)
    }

    /// Starts a connection to which the server can write `room` bytes before the peer must read.
    pub(super) fn for_router(router: Router, bounds: Bounds, room: usize) -> Self {
        Self::for_server(Arc::new(ServerState::new(router, edge(bounds))), room)
    }

    pub(super) fn for_server(shared: Arc<ServerState>, room: usize) -> Self {
        let (stream, server) = tokio::io::duplex(room);
        let addresses = ConnectionAddresses {
            peer: ([127, 0, 0, 1], 5).into(),
            local: ([127, 0, 0, 1], 9402).into(),
        };
        let guard = shared.slots.admit(addresses.peer.ip(), shared.now()).unwrap();
        let serving =
            tokio::spawn(super::connection::serve(server, addresses, guard, Arc::clone(&shared)));
        Self { stream, shared, serving, started: Instant::now() }
    }

    pub(super) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until the server ends its side; returns the text, and the time of the end in milliseconds.
    pub(super) async fn read_to_end(&mut self) -> (String, u64) {
        let mut read = String::new();
        let ended = tokio::time::timeout(PATIENCE, self.stream.read_to_string(&mut read)).await;
        let _reset = ended.expect("the server never ends the connection");
        (read, u64::try_from(self.started.elapsed().as_millis()).unwrap())
    }

    /// Waits until the server drops the connection, without reading; returns the time in milliseconds.
    pub(super) async fn wait_until_dropped(&mut self) -> u64 {
        let ended = tokio::time::timeout(PATIENCE, &mut self.serving).await;
        ended.expect("the server never drops the connection").unwrap();
        u64::try_from(self.started.elapsed().as_millis()).unwrap()
    }

    pub(super) async fn assert_refused(&mut self, refusal: Refusal) -> u64 {
        let (read, after) = self.read_to_end().await;
        let last = read.rsplit("HTTP/1.1 ").next().unwrap();
        assert!(last.starts_with(refusal.status().as_str()), "{read}");
        assert!(last.contains("\r\nconnection: close\r\n"), "{read}");
        assert!(last.ends_with(refusal.text()), "{read}");
        after
    }

    /// Reads the next response, which must have this body.
    pub(super) async fn assert_answered(&mut self, body: &str) {
        let mut read = Vec::new();
        while !read.ends_with(format!("\r\n\r\n{body}").as_bytes()) {
            assert_ne!(self.stream.read_buf(&mut read).await.unwrap(), 0, "the server closed");
        }
        assert!(read.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}
