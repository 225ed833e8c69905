//! Hand-written HTTP, to see exactly what a caller receives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Timeout of a read.
const TIMEOUT: Duration = Duration::from_secs(30);

fn address(url: &str) -> &str {
    url.strip_prefix("http://").expect("a URL of an engine")
}

fn request(host: &str, (method, path): (&str, &str), headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n");
    [head.as_bytes(), headers.as_bytes(), b"\r\n", body].concat()
}

/// Sends one request on a new connection; returns every byte of the answer except the time in `date`.
pub(crate) fn exchange(url: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address(url)).expect("it listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set");
    let headers = format!("{headers}connection: close\r\n");
    let bytes = request(address(url), (method, path), &headers, body);
    // A server may answer and close the connection before it has read everything.
    let _refused_early = stream.write_all(&bytes);
    let mut answer = Vec::new();
    let _reset_after_the_answer = stream.read_to_end(&mut answer);
    without_date(&answer)
}

fn without_date(answer: &[u8]) -> Vec<u8> {
    let name = b"\r\ndate: ";
    let Some(at) = answer.windows(name.len()).position(|found| found == name) else {
        return answer.to_vec();
    };
    let (head, rest) = answer.split_at(at + name.len());
    let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
    [head, &rest[end..]].concat()
}

/// A kept-alive connection that returns status and body of each answer.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    stream: TcpStream,
    host: String,
}

impl KeepAlive {
    pub(crate) fn open(url: &str) -> Self {
        let stream = TcpStream::connect(address(url)).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("set");
        Self { stream, host: address(url).to_owned() }
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let bytes = request(&self.host, (method, path), "", body);
        self.stream.write_all(&bytes).expect("the connection stands");
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).expect("the connection stands");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("ASCII").to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status");
        let length = head.split_once("content-length: ").expect("a length").1;
        let length = length.split_once('\r').expect("a line").0.parse().expect("a number");
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the whole body");
        (status, body)
    }
}
