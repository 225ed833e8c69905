//! Thousands of connections that send half a request each.
//!
//! Meanwhile another address calls, and the operator stops the service.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bursar_tests::process::allow_open_files;
use bursar_tests::raw::RawClient;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::edge::stage::{OPEN_FILES_HARD_LIMIT, Service};

const HALF_SENT_HEADS: usize = 5_000;
const SLOW_BODIES: usize = 2_000;
/// A tenth of a body that never completes, in bytes.
const BODY_PART_BYTES: usize = 20 << 10;
/// Address of the caller that is not part of the flood.
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// Timeout of every wait; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Upper bound for the p99 of a health check on a busy machine. Without the bounds of the edge it takes minutes.
const HEALTH_P99_MAX: Duration = Duration::from_secs(2);

/// Connections from 127.0.0.1 that stay open until they are dropped or the service closes them.
struct Flood {
    connections: JoinSet<()>,
}

impl Flood {
    /// Opens all half-sent heads first, then all slow bodies: the slots end up with bodies, which cost most memory.
    fn begin(address: SocketAddr, body_route: &'static str) -> (Self, oneshot::Receiver<()>) {
        let (done, opened) = oneshot::channel();
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let part = "x".repeat(BODY_PART_BYTES);
            let length = BODY_PART_BYTES * 10;
            let body = format!(
                "POST {body_route} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{part}"
            );
            let mut held = JoinSet::new();
            for n in 0..HALF_SENT_HEADS + SLOW_BODIES {
                let text = if n < HALF_SENT_HEADS { "GET /health HTTP/1.1\r\nHost: lo" } else { &body };
                // The service may close a new connection at once; then this connection is done.
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                let _closed = stream.write_all(text.as_bytes()).await;
                held.spawn(async move {
                    let mut rest = Vec::new();
                    let _closed = stream.read_to_end(&mut rest).await;
                });
            }
            let _nobody_waits = done.send(());
            while held.join_next().await.is_some() {}
        });
        (Self { connections }, opened)
    }

    async fn end(mut self) {
        self.connections.shutdown().await;
    }
}

/// Measures health checks of another address, each on its own connection, until the flood is `opened`.
///
/// Makes at least 200 checks, and returns their durations in ascending order.
async fn health_until(address: SocketAddr, mut opened: oneshot::Receiver<()>) -> Vec<Duration> {
    let mut took = Vec::new();
    let mut is_opened = false;
    loop {
        let started = Instant::now();
        let mut caller = RawClient::connect_from(OTHER, address).await.expect("connected");
        assert_eq!(caller.ask(HEALTH).await.status, 200);
        took.push(started.elapsed());
        is_opened |= opened.try_recv().is_ok();
        if is_opened && took.len() >= 200 {
            took.sort_unstable();
            return took;
        }
        tokio::task::yield_now().await;
    }
}

async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < TIMEOUT, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs the flood, and asserts the bounds during and after it.
async fn flood(mut service: Service) {
    allow_open_files(u64::try_from(HALF_SENT_HEADS + SLOW_BODIES).expect("small"));
    let name = service.name;
    let before = service.resident_mib();
    let (flood, opened) = Flood::begin(service.address, service.body_route);
    let took = health_until(service.address, opened).await;
    let p99 = took[took.len() * 99 / 100];
    let held = service.sockets();
    eprintln!(
        "{name}: {} health checks, p50 {:?}, p99 {p99:?}, most {:?}; {held} sockets; RSS {before:.1} MiB before, \
         {:.1} now, {:.1} at most",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1],
        service.resident_mib(),
        service.resident_mib_max(),
    );
    assert!(p99 < HEALTH_P99_MAX, "{name}: {p99:?}");
    assert!(service.resident_mib_max() <= service.memory_max, "{name}");
    assert!(held <= usize::try_from(OPEN_FILES_HARD_LIMIT).expect("small"), "{name}");
    assert!(
        held > usize::try_from(OPEN_FILES_HARD_LIMIT / 4).expect("small"),
        "{name} raised its soft limit"
    );
    // When the flood ends, the service frees the resources that the flood used.
    flood.end().await;
    wait_until("all connections are closed", || service.sockets() < 64).await;
    eprintln!("{name}: RSS {:.1} MiB right afterwards", service.resident_mib());
    let spare = before + 16.0;
    wait_until("memory is given back", || service.resident_mib() <= spare).await;
    eprintln!("{name}: RSS {:.1} MiB afterwards", service.resident_mib());
    // A stop does not wait for connections without a request.
    let (flood, opened) = Flood::begin(service.address, service.body_route);
    opened.await.expect("the flood is open");
    let started = Instant::now();
    service.process.signal(Signal::TERM);
    assert!(service.process.wait().success(), "{name}");
    let stopped = started.elapsed();
    eprintln!("{name}: stopped after {stopped:?}");
    // The limit is half the time for which a stop waits for requests in progress.
    assert!(stopped < Duration::from_secs(10), "{name}: {stopped:?}");
    flood.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_40_a_flood_does_not_starve_bloat_or_hang_the_facilitator() {
    flood(Service::facilitator()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_40_a_flood_does_not_starve_bloat_or_hang_the_proxy() {
    flood(Service::proxy().await).await;
}

#[tokio::test]
async fn t_40_one_half_sent_head_does_not_hold_up_the_stop() {
    for mut service in Service::both().await {
        let mut half = RawClient::to(service.address).await;
        half.send(b"GET /health HTTP/1.1\r\nHo").await;
        let mut idle = RawClient::to(service.address).await;
        idle.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(idle.reply(false).await.expect("an answer").status, 200);
        let started = Instant::now();
        service.process.signal(Signal::TERM);
        assert!(service.process.wait().success(), "{}", service.name);
        assert!(started.elapsed() < Duration::from_secs(10), "{}", service.name);
        assert!(idle.reply(false).await.is_none() && half.reply(false).await.is_none());
    }
}
