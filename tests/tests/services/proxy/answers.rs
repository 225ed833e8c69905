//! The memory for whole answers: it is bounded over all sales, reserved before a payment is verified, and returned
//! after the sale.

use std::time::Duration;

use bursar_tests::payer::Payer;
use bursar_tests::process;
use bursar_tests::proxy::{Customer, ProxyHome, chat};
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use bursar_tests::upstream::{Behavior, Upstream, answer};
use futures::future::join_all;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::proxy::stage::{Stage, refusal, wait_until};

/// The smallest memory: 128 sales, one of which may be long.
const SMALLEST_MEMORY_SETTINGS: &str =
    "answers_bytes = 16777216\nupstream_ms = 3000\nupstream_idle_ms = 3000";

/// An answer of which only the head was read.
struct UnreadAnswer {
    status: u16,
    stream: TcpStream,
    /// Bytes of the body that came with the head.
    received: usize,
}

impl UnreadAnswer {
    /// Reads the body and returns its length.
    async fn read(mut self) -> usize {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).await.unwrap();
        self.received + rest.len()
    }
}

/// Pays and reads only the head of the answer. The receive buffer has a fixed size: otherwise the system would buffer
/// megabytes of the unread body.
async fn buy_unread(customer: &Customer, body: &Value) -> UnreadAnswer {
    let header = customer.sign(2, body).await;
    let host = customer.url.strip_prefix("http://").unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let mut stream = socket.connect(host.parse().unwrap()).await.unwrap();
    let (body, name, value) = (body.to_string(), header.name, header.value);
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n{name}: {value}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let head = loop {
        if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        assert!(stream.read_buf(&mut received).await.unwrap() > 0, "no answer");
    };
    let status = str::from_utf8(&received[9..12]).unwrap().parse().unwrap();
    UnreadAnswer { status, stream, received: received.len() - head }
}

#[tokio::test]
async fn a_request_without_room_for_its_answer_is_refused_before_it_pays() {
    let stage = Stage::with(Behavior::Late(answer("hello")), "answers_bytes = 16777216").await;
    let body = chat("hello");
    let challenge = stage.customer.ask(&body).await;
    let header = || stage.customer.sign_with(2, &challenge, |_terms| {});
    let (headers, last): (Vec<_>, _) = ((0..128).map(|_n| header()).collect(), header());
    let sales = join_all(headers.iter().map(|header| stage.customer.send(&body, header)));
    let refused = async {
        wait_until(|| stage.upstream.calls() == 128).await;
        let response = stage.customer.send(&body, &last).await;
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(refusal(response).await, (503, "busy".to_owned()));
        assert_eq!((stage.upstream.calls(), stage.facilitator.verify_calls()), (128, 128));
        stage.upstream.open_gate(129);
    };
    let (sales, ()) = tokio::join!(sales, refused);
    assert!(sales.iter().all(|sale| sale.status() == 200));
    drop(sales);
    assert_eq!(stage.customer.send(&body, &last).await.status(), 200);
    assert_eq!(stage.facilitator.settled(), 129);
}

/// A customer who reads nothing occupies the memory of a long answer. Meanwhile no sale that needs this memory is
/// charged, and no paid sale is refused.
#[tokio::test]
async fn long_answers_wait_for_memory_before_they_are_settled() {
    let stage = Stage::with(Behavior::Long(500 << 10), SMALLEST_MEMORY_SETTINGS).await;
    let (body, other) = (chat("hello"), Customer::of(&stage.proxy.url, Payer::random()));
    let kept = stage.customer.sign(2, &body).await;
    let first = stage.customer.send(&body, &kept).await.bytes().await.unwrap();
    stage.upstream.set_behavior(Behavior::Long(7 << 20));
    let unread = buy_unread(&stage.customer, &body).await;
    assert_eq!((unread.status, stage.facilitator.settled()), (200, 2));
    let header = other.sign(2, &body).await;
    let refused = refusal(other.send(&body, &header).await).await;
    assert_eq!(refused, (503, "busy".to_owned()));
    // A repeat uses separate memory.
    let repeat = stage.customer.send(&body, &kept).await.bytes().await.unwrap();
    assert_eq!(repeat, first);
    assert_eq!((stage.facilitator.settle_calls(), stage.facilitator.settled()), (2, 2));
    // Meanwhile short answers are sold.
    stage.upstream.set_behavior(Behavior::Whole(answer("hello")));
    assert_eq!(other.buy(2, &chat("short")).await.status(), 200);
    assert!(unread.read().await > 7 << 20);
    stage.upstream.set_behavior(Behavior::Long(7 << 20));
    assert_eq!(other.send(&body, &header).await.status(), 200);
    assert_eq!(stage.facilitator.settled(), 4);
}

/// An error body is buffered whole, too.
#[tokio::test]
async fn long_errors_of_the_upstream_share_the_memory() {
    let stage = Stage::with(Behavior::Long(7 << 20), SMALLEST_MEMORY_SETTINGS).await;
    let body = chat("hello");
    let unread = buy_unread(&stage.customer, &body).await;
    stage.upstream.set_behavior(Behavior::Status(500, "x".repeat(1 << 20)));
    let header = stage.customer.sign(2, &body).await;
    let refused = refusal(stage.customer.send(&body, &header).await).await;
    assert_eq!(refused, (503, "busy".to_owned()));
    drop(unread);
    let passed = stage.customer.send(&body, &header).await;
    assert_eq!((passed.status().as_u16(), passed.bytes().await.unwrap().len()), (500, 1 << 20));
}

/// Sixty answers of 7 MiB are 420 MiB. The default memory holds eight of them at once.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_long_answers_at_once_stay_within_the_memory_and_return_it() {
    let upstream = Upstream::serve(Behavior::Long(7 << 20)).await;
    let facilitator = ScriptedFacilitator::serve().await;
    let home = ProxyHome::new(&upstream.url, &facilitator.url, "");
    let proxy = home.start_process(None);
    let customer = Customer::of(&proxy.url, Payer::random());
    let body = chat("hello");
    let challenge = customer.ask(&body).await;
    let (before, _peak) = process::memory_mib(proxy.pid());
    let sales = join_all((0..60).map(|_n| async {
        let header = customer.sign_with(2, &challenge, |_terms| {});
        let mut sale = customer.send(&body, &header).await;
        assert_eq!(sale.status(), 200);
        let mut bytes = 0;
        while let Some(chunk) = sale.chunk().await.expect("whole") {
            bytes += chunk.len();
        }
        bytes
    }))
    .await;
    assert!(sales.iter().all(|bytes| *bytes > 7 << 20));
    assert_eq!(facilitator.settled(), 60);
    let (_after, peak) = process::memory_mib(proxy.pid());
    let returned = async {
        loop {
            let (now, _peak) = process::memory_mib(proxy.pid());
            if now < before + 64.0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let rest = tokio::time::timeout(Duration::from_secs(30), returned).await;
    let (now, _peak) = process::memory_mib(proxy.pid());
    eprintln!("MiB before {before}, peak {peak}, afterwards {now}");
    assert!(peak < before + 256.0, "{peak} MiB, {before} before");
    rest.expect("the memory is returned");
}
