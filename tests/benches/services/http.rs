//! A load generator with low overhead: requests are prepared bytes, and only the length of answers is parsed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Run {
    pub duration: Duration,
    /// Latency of each request, in ascending order.
    pub latencies: Vec<Duration>,
    /// The bodies of the answers with the numbers of their requests, in any order.
    pub answers: Vec<(usize, Vec<u8>)>,
}

impl Run {
    /// Returns the number of requests per second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.duration.as_secs_f64()
    }

    /// Returns the latency below which this share of the requests lies, in milliseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.latencies.len() - 1;
        let at = (last as f64 * share).round() as usize;
        self.latencies[at].as_secs_f64() * 1_000.0
    }
}

/// Returns the bytes of a POST request.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends `count` requests over `connections`, each as soon as its connection is free.
///
/// The requests are taken from `requests` in turn.
pub async fn run_load(
    address: &str,
    connections: usize,
    count: usize,
    requests: Arc<Vec<Vec<u8>>>,
    keep_answers: bool,
) -> Run {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let drivers = (0..connections).map(|_one| {
        let (next, requests, address) =
            (Arc::clone(&next), Arc::clone(&requests), address.to_owned());
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(&address).await.expect("connected");
            stream.set_nodelay(true).expect("set");
            let mut buffer = Vec::with_capacity(16 << 10);
            let mut latencies = Vec::new();
            let mut answers = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= count {
                    return (latencies, answers);
                }
                let sent = Instant::now();
                stream.write_all(&requests[at % requests.len()]).await.expect("sent");
                let body = answer(&mut stream, &mut buffer).await;
                latencies.push(sent.elapsed());
                if keep_answers {
                    answers.push((at, buffer[body..].to_vec()));
                }
            }
        })
    });
    let mut run = Run { duration: Duration::ZERO, latencies: Vec::new(), answers: Vec::new() };
    for driver in drivers.collect::<Vec<_>>() {
        let (latencies, answers) = driver.await.expect("driven");
        run.latencies.extend(latencies);
        run.answers.extend(answers);
    }
    run.duration = begun.elapsed();
    run.latencies.sort_unstable();
    run
}

/// Reads one answer; returns the offset of its body in the buffer.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> usize {
    buffer.clear();
    loop {
        let read = stream.read_buf(buffer).await.expect("read");
        assert!(read > 0, "the connection was closed");
        let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
        let length = text.split("content-length:").nth(1).expect("a length");
        let length: usize =
            length.lines().next().expect("a line").trim().parse().expect("a number");
        let body = head + 4;
        while buffer.len() < body + length {
            assert!(stream.read_buf(buffer).await.expect("read") > 0, "cut off");
        }
        return body;
    }
}
