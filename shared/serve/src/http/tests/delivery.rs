use std::sync::Mutex;

use axum::response::{IntoResponse, Response};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;

/// More bytes than all socket buffers between two ends can hold.
const LARGE_BODY_BYTES: usize = 64 << 20;

/// A server whose routes report the delivery of their responses.
struct ReportingServer {
    address: SocketAddr,
    reports: tokio::sync::mpsc::UnboundedReceiver<DeliveryReport>,
    start_response: Option<oneshot::Sender<()>>,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

/// Timeout of a missing report.
const PATIENCE: Duration = Duration::from_secs(30);

async fn wait_for_report(delivered: DeliveryReport) -> bool {
    tokio::time::timeout(PATIENCE, delivered).await.expect("a report")
}

impl ReportingServer {
    async fn new(bounds: Bounds) -> Self {
        let (sender, reports) = tokio::sync::mpsc::unbounded_channel();
        let (go, wait) = oneshot::channel::<()>();
        let wait = Arc::new(Mutex::new(Some(wait)));
        let with = move |mut response: Response| {
            let (delivery, delivered) = delivery();
            sender.send(delivered).unwrap();
            response.extensions_mut().insert(delivery);
            response
        };
        let (small, empty, slow) = (with.clone(), with.clone(), with.clone());
        let (large, streamed, endless) = (with.clone(), with.clone(), with);
        let begun = || {
            let first = futures::stream::iter([Ok::<_, std::io::Error>("begun")]);
            let rest = futures::stream::pending();
            Body::from_stream(futures::StreamExt::chain(first, rest)).into_response()
        };
        let chunks = || {
            let parts = (0..3).map(|n| Ok::<_, std::io::Error>(n.to_string()));
            Body::from_stream(futures::stream::iter(parts)).into_response()
        };
        let late = move || {
            let wait = wait.lock().unwrap().take().unwrap();
            async move {
                let _gone = wait.await;
                slow("late".into_response())
            }
        };
        let router = Router::new()
            .route("/small", get(move || async move { small("small".into_response()) }))
            .route("/empty", get(move || async move { empty(().into_response()) }))
            .route("/streamed", get(move || async move { streamed(chunks()) }))
            .route(
                "/large",
                get(move || async move { large(vec![b'x'; LARGE_BODY_BYTES].into_response()) }),
            )
            .route("/endless", get(move || async move { endless(begun()) }))
            .route("/late", get(late));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tracker, stopping) = (TaskTracker::new(), CancellationToken::new());
        serve([listener], router, edge(bounds), &tracker, &stopping);
        Self { address, reports, start_response: Some(go), tracker, stopping }
    }

    async fn ask(&self, method: &str, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn next_report(&mut self) -> DeliveryReport {
        self.reports.recv().await.unwrap()
    }

    /// Returns the value of the next report.
    async fn next_report_value(&mut self) -> bool {
        wait_for_report(self.next_report().await).await
    }

    async fn stop(self) {
        self.stopping.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[tokio::test]
async fn a_response_that_was_written_reports_delivery() {
    let mut server = ReportingServer::new(bounds()).await;
    for (method, path) in
        [("GET", "/small"), ("GET", "/empty"), ("GET", "/streamed"), ("HEAD", "/small")]
    {
        let mut stream = server.ask(method, path).await;
        assert!(server.next_report_value().await, "{method} {path}");
        let mut read = [0; 4096];
        assert_ne!(stream.read(&mut read).await.unwrap(), 0);
        // The connection stays open, and reports the next response too.
        let again = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(again.as_bytes()).await.unwrap();
        assert!(server.next_report_value().await, "{method} {path}, the second time");
    }
    let mut stream = server.ask("GET", "/large").await;
    let report = tokio::spawn(wait_for_report(server.next_report().await));
    let mut read = vec![0; 1 << 20];
    let mut total = 0;
    while total < LARGE_BODY_BYTES {
        let count = stream.read(&mut read).await.unwrap();
        assert_ne!(count, 0);
        total += count;
    }
    assert!(report.await.unwrap());
    server.stop().await;
}

#[tokio::test]
async fn a_response_to_a_reset_peer_reports_no_delivery() {
    let mut server = ReportingServer::new(Bounds { allow_half_close: true, ..bounds() }).await;
    let stream = server.ask("GET", "/late").await;
    // Sends a reset at once, as a killed process does: the socket is closed with unread data.
    stream.set_zero_linger().unwrap();
    drop(stream);
    // The loopback queue keeps the order, so the reset reaches the server before this exchange begins.
    let mut other = server.ask("GET", "/small").await;
    assert_ne!(other.read(&mut [0; 4096]).await.unwrap(), 0);
    assert!(server.next_report_value().await);
    server.start_response.take().unwrap().send(()).unwrap();
    assert!(!server.next_report_value().await);
    server.stop().await;
}

#[tokio::test]
async fn an_unfinished_response_reports_no_delivery() {
    let mut server = ReportingServer::new(bounds()).await;
    let mut stream = server.ask("GET", "/endless").await;
    let mut read = Vec::new();
    while !read.ends_with(b"begun\r\n") {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
    }
    drop(stream);
    assert!(!server.next_report_value().await);
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_was_cancelled_reports_no_delivery() {
    let mut server = ReportingServer::new(bounds()).await;
    drop(server.ask("GET", "/large").await);
    // Either the route is cancelled and makes no report, or its response fails.
    if let Ok(Some(report)) =
        tokio::time::timeout(Duration::from_secs(5), server.reports.recv()).await
    {
        assert!(!wait_for_report(report).await);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_large_response_to_a_stalled_peer_reports_no_delivery() {
    let mut server = ReportingServer::new(Bounds { write_ms_max: 200, ..bounds() }).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(!server.next_report_value().await);
    // The connection is gone although the peer is still there.
    server.stop().await;
    drop(stream);
}
