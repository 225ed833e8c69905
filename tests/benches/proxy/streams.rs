//! A thousand concurrent streams: the delay of each piece compared with the bare upstream,
//! and the memory of the streams.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::routing::post as route;
use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http::post;
use crate::stage::{Stage, body};

/// Number of pieces of a stream.
const PIECES_PER_STREAM: usize = 40;
/// Pause between two pieces.
const PIECE_PAUSE: Duration = Duration::from_millis(250);

/// Pause between the starts of two customers.
const CUSTOMER_PAUSE: Duration = Duration::from_millis(2);

pub async fn measure() {
    // Every piece contains the time of its creation.
    let epoch = Instant::now();
    let upstream = start_timed_upstream(epoch).await;
    println!("streams: {PIECES_PER_STREAM} pieces, one each {} ms", PIECE_PAUSE.as_millis());
    println!(
        "{:>7}  {:>12} {:>12}  {:>12} {:>12}  {:>11}  {:>8}",
        "streams", "bare p50 ms", "bare p99 ms", "paid p50 ms", "paid p99 ms", "added p99", "MiB"
    );
    for streams in [1, 100, 1_000] {
        // A new process is used, so that only these streams affect its memory.
        let stage = Stage::in_front_of(&format!("http://{upstream}/v1")).await;
        let body = body(true);
        let requests = stage.paid_requests(&body, streams).await;
        let plain = post("/v1/chat/completions", &body.to_string());
        let bare = run(&upstream, vec![plain; streams], epoch).await;
        let address = stage.process.address.clone();
        let paid = run(&address, requests, epoch).await;
        let (_now, most) = stage.process.memory_mib();
        let at = |all: &[f64], share: f64| all[((all.len() - 1) as f64 * share) as usize];
        println!(
            "{streams:>7}  {:>12.2} {:>12.2}  {:>12.2} {:>12.2}  {:>11.2}  {most:>8.1}",
            at(&bare, 0.5),
            at(&bare, 0.99),
            at(&paid, 0.5),
            at(&paid, 0.99),
            at(&paid, 0.99) - at(&bare, 0.99),
        );
    }
}

/// Returns the delay of each piece but the first of a stream, in milliseconds, in ascending order.
///
/// The first piece is left out, because it waits for the settlement.
async fn run(address: &str, requests: Vec<Vec<u8>>, epoch: Instant) -> Vec<f64> {
    let all = requests.into_iter().enumerate().map(|(n, request)| {
        let address = address.to_owned();
        tokio::spawn(async move {
            // Customers start at different times; otherwise all pieces of all streams would coincide.
            tokio::time::sleep(CUSTOMER_PAUSE * u32::try_from(n).expect("few")).await;
            let mut stream = TcpStream::connect(&address).await.expect("connected");
            stream.write_all(&request).await.expect("sent");
            let mut buffer = Vec::with_capacity(8 << 10);
            let mut late = Vec::with_capacity(PIECES_PER_STREAM);
            let mut seen = 0;
            while late.len() < PIECES_PER_STREAM {
                let read = stream.read_buf(&mut buffer).await.expect("read");
                assert!(read > 0, "cut off: {}", String::from_utf8_lossy(&buffer));
                let now = epoch.elapsed().as_secs_f64() * 1_000.0;
                while let Some(from) = buffer[seen..].windows(3).position(|w| w == b"at:") {
                    let digits = &buffer[seen + from + 3..];
                    let Some(end) = digits.iter().position(|byte| *byte == b';') else { break };
                    let text = std::str::from_utf8(&digits[..end]).expect("text");
                    late.push(now - text.parse::<f64>().expect("a number"));
                    seen += from + 3 + end;
                }
            }
            late.split_off(1)
        })
    });
    let mut late: Vec<f64> =
        join_all(all).await.into_iter().flat_map(|one| one.expect("run")).collect();
    late.sort_by(f64::total_cmp);
    late
}

/// Starts an upstream whose pieces contain the time of their creation.
async fn start_timed_upstream(epoch: Instant) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let chat = move |_body: Bytes| async move {
        let pieces = futures::stream::unfold(0, move |n| async move {
            if n == PIECES_PER_STREAM {
                return None;
            }
            if n > 0 {
                tokio::time::sleep(PIECE_PAUSE).await;
            }
            let at = epoch.elapsed().as_secs_f64() * 1_000.0;
            let delta = format!("{{\"content\":\"at:{at:.3};\"}}");
            let frame = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
            Some((Ok::<_, Infallible>(Bytes::from(frame)), n + 1))
        });
        ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(pieces))
    };
    let app = Router::new().route("/v1/chat/completions", route(chat));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
