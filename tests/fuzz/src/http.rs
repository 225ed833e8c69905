//! HTTP requests as bytes, their mutations, and a client that reads any answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bursar_tests::dice::Dice;
use serde_json::Value;

use crate::draw::{mutate_bytes, odd_number, odd_text, pick};
use crate::json;

/// Timeout of an answer: longer than the longest time that a service's manual states.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(45);

/// A request before it becomes bytes.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Body,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    None,
    Json(Value),
    Bytes(Vec<u8>),
}

impl Request {
    pub(crate) fn get(target: &str) -> Self {
        Self { method: "GET".into(), target: target.into(), headers: Vec::new(), body: Body::None }
    }

    pub(crate) fn post(target: &str, body: Value) -> Self {
        Self {
            method: "POST".into(),
            target: target.into(),
            headers: vec![("content-type".into(), b"application/json".to_vec())],
            body: Body::Json(body),
        }
    }

    pub(crate) fn with_header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Returns the bytes of the request. The connection closes after the answer.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = match &self.body {
            Body::None => Vec::new(),
            Body::Json(value) => value.to_string().into_bytes(),
            Body::Bytes(bytes) => bytes.clone(),
        };
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name == wanted);
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        let mut line = |name: &str, value: &[u8]| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        };
        if !has("host") {
            line("host", b"localhost");
        }
        if !has("connection") {
            line("connection", b"close");
        }
        if !has("content-length") && !has("transfer-encoding") && !matches!(self.body, Body::None) {
            line("content-length", body.len().to_string().as_bytes());
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&body);
        out
    }

    /// Changes one to three parts of the request, most often the body.
    pub(crate) fn mutate(&mut self, dice: &mut Dice) {
        for _ in 0..=dice.roll(2) {
            match (dice.roll(10), &self.body) {
                (0, _) => self.mutate_method(dice),
                (1 | 2, _) => self.mutate_target(dice),
                (3 | 4, _) => self.mutate_headers(dice),
                (_, Body::Json(value)) => self.body = Body::Bytes(json::mutated(dice, value)),
                (_, Body::Bytes(bytes)) => {
                    let mut bytes = bytes.clone();
                    mutate_bytes(dice, &mut bytes);
                    self.body = Body::Bytes(bytes);
                }
                (_, Body::None) => self.mutate_target(dice),
            }
        }
    }

    fn mutate_method(&mut self, dice: &mut Dice) {
        const METHODS: &[&str] = &[
            "GET",
            "POST",
            "PUT",
            "HEAD",
            "OPTIONS",
            "PATCH",
            "DELETE",
            "TRACE",
            "CONNECT",
            "get",
            "PRI",
            "G\u{e9}T",
            "",
            "M-SEARCH",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ];
        self.method = pick(dice, METHODS).to_string();
    }

    fn mutate_target(&mut self, dice: &mut Dice) {
        const TARGETS: &[&str] = &[
            "*",
            "/",
            "//",
            "",
            "/.",
            "/..",
            "/../../x",
            "http://localhost/health",
            "http://evil.example/",
            "/%",
            "/%0",
            "/%00",
            "/%ff",
            "/%2e%2e/",
            "/sign/status/",
            "/sign/status/%00",
            "/a b",
            "/health?",
            "/health#x",
            "?",
            "#",
            "localhost:80",
            "/\u{e9}",
            "/health/",
            "/HEALTH",
            "/;x",
            "/openapi.json",
            "/metrics",
            "/status",
            "/agent",
        ];
        let target = self.target.clone();
        self.target = match dice.roll(9) {
            0 => pick(dice, TARGETS).to_string(),
            1 => format!("{target}?{}={}", odd_text(dice), odd_text(dice)),
            2 => format!("{target}?a=1&a=2&{0}={0}", odd_number(dice)),
            3 => target.bytes().map(|byte| format!("%{byte:02x}")).collect(),
            4 => format!("{target}/{}", odd_text(dice)),
            5 => {
                let mut bytes = target.into_bytes();
                mutate_bytes(dice, &mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            6 => format!("{target}?{}", "x=1&".repeat(dice.index(1_200))),
            7 => match target.find('?') {
                Some(at) => format!("{target}&{}", &target[at + 1..]),
                None => format!("{target}?network=eip155:8453&network=eip155:1"),
            },
            _cut => target.chars().take(dice.index(target.len() + 1)).collect(),
        };
    }

    fn mutate_headers(&mut self, dice: &mut Dice) {
        const HEADERS: &[(&str, &[u8])] = &[
            ("host", b"evil.example"),
            ("host", b""),
            ("host", b"localhost:99999"),
            ("host", b"127.0.0.1"),
            ("Host", b"localhost"),
            ("content-length", b"0"),
            ("content-length", b"-1"),
            ("content-length", b"1"),
            ("content-length", b"99999999999999999999"),
            ("content-length", b"5, 5"),
            ("transfer-encoding", b"chunked"),
            ("transfer-encoding", b"gzip, chunked"),
            ("content-encoding", b"gzip"),
            ("content-type", b"text/plain"),
            ("content-type", b"application/json; charset=utf-16"),
            ("expect", b"100-continue"),
            ("expect", b"x"),
            ("origin", b"http://evil.example"),
            ("referer", b"http://evil.example"),
            ("sec-fetch-site", b"cross-site"),
            ("upgrade", b"h2c"),
            ("connection", b"upgrade"),
            ("connection", b"keep-alive"),
            ("x-forwarded-for", b"::1, x"),
            ("authorization", b"Bearer x"),
            ("authorization", b"\xff"),
            ("x-api-key", b""),
            ("idempotency-key", b""),
            ("idempotency-key", b"\x80\x81"),
            ("payment-signature", b"e30="),
            ("payment-signature", b"!"),
            ("x-payment", b"bnVsbA=="),
            ("x-payment", b"\xff\xff"),
            ("range", b"bytes=0-1"),
            ("accept", b"text/html"),
            ("te", b"trailers"),
            ("cookie", b"a=b"),
            ("accept-encoding", b"gzip, br"),
            ("if-match", b"*"),
        ];
        match dice.roll(8) {
            0 => {
                let name: String =
                    odd_text(dice).chars().filter(|c| !"\r\n:".contains(*c)).collect();
                self.headers.push((name, odd_text(dice).into_bytes()));
            }
            1 => {
                let long = vec![b'a'; dice.one_of(&[1_000, 4_096, 8_192, 16_384, 40_000])];
                self.headers.push(("x-long".into(), long));
            }
            2 => {
                let many = dice.one_of(&[10, 63, 64, 65, 100, 1_000]);
                self.headers.extend((0..many).map(|n| (format!("x-{n}"), b"1".to_vec())));
            }
            3 if !self.headers.is_empty() => {
                let at = dice.index(self.headers.len());
                mutate_bytes(dice, &mut self.headers[at].1);
            }
            4 if !self.headers.is_empty() => {
                let twice = pick(dice, &self.headers).clone();
                self.headers.push(twice);
            }
            5 if !self.headers.is_empty() => {
                drop(self.headers.remove(dice.index(self.headers.len())))
            }
            _listed => {
                let (name, value) = *pick(dice, HEADERS);
                self.headers.push((name.to_owned(), value.to_vec()));
            }
        }
    }
}

/// A parsed response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Returns the first header of this lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// Sends bytes, then closes the sending side if `half_close` is set. Returns the first final response.
///
/// `Ok(None)` means that the server closed the connection without a response.
///
/// # Errors
/// The server cannot be reached, does not end the connection in time, or sends something that is not HTTP.
pub(crate) fn exchange(
    address: SocketAddr,
    bytes: &[u8],
    half_close: bool,
) -> Result<Option<Reply>, String> {
    let mut stream =
        TcpStream::connect(address).map_err(|error| format!("cannot connect: {error}"))?;
    let bounded = stream.set_read_timeout(Some(ANSWER_TIMEOUT));
    bounded.and(stream.set_write_timeout(Some(ANSWER_TIMEOUT))).expect("a live socket");
    // The server may answer and close before it has read everything.
    let _refused_early = stream.write_all(bytes);
    if half_close {
        let _closed = stream.shutdown(Shutdown::Write);
    }
    let mut received = Vec::new();
    let mut piece = [0; 16 << 10];
    loop {
        if is_complete(&received) {
            break;
        }
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => received.extend_from_slice(&piece[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(format!("no complete answer within {} s", ANSWER_TIMEOUT.as_secs()));
            }
            // A reset counts as the end of the connection, too.
            Err(_reset) => break,
        }
        if received.len() > 64 << 20 {
            return Err("an answer of more than 64 MiB".into());
        }
    }
    // A server that waits for the rest of a body may send `100 Continue`, and then see the end of the stream.
    let only_continues = received.starts_with(b"HTTP/1.1 100 ") && received.ends_with(b"\r\n\r\n");
    let is_final = received.windows(4).filter(|four| four == b"\r\n\r\n").count() > 1;
    if received.is_empty() || only_continues && !is_final {
        Ok(None)
    } else {
        parse(&received).map(Some)
    }
}

/// Returns whether a final response is complete, so that the client need not wait for the end of the connection.
fn is_complete(received: &[u8]) -> bool {
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
    if head.starts_with("http/1.1 1") {
        return is_complete(&received[end + 4..]);
    }
    let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if value("transfer-encoding:") == Some("chunked") {
        return received.ends_with(b"\r\n0\r\n\r\n");
    }
    value("content-length:")
        .and_then(|length| length.parse::<usize>().ok())
        .is_some_and(|length| received.len() >= end + 4 + length)
}

fn parse(received: &[u8]) -> Result<Reply, String> {
    let wrong = |what: &str| {
        format!("{what}: {:?}", String::from_utf8_lossy(&received[..received.len().min(300)]))
    };
    let end =
        received.windows(4).position(|four| four == b"\r\n\r\n").ok_or(wrong("half a head"))?;
    let head = std::str::from_utf8(&received[..end]).map_err(|_no_text| wrong("an odd head"))?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
    let status: u16 = status.and_then(|code| code.parse().ok()).ok_or(wrong("no status"))?;
    if status < 200 {
        return if received.len() == end + 4 {
            Ok(Reply { status, headers: Vec::new(), body: Vec::new() })
        } else {
            parse(&received[end + 4..])
        };
    }
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(wrong("an odd header"))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let body = received[end + 4..].to_vec();
    let mut reply = Reply { status, headers, body };
    // Bytes after this body belong to the answer to a second request in the same input.
    if let Some(length) = reply.header("content-length").and_then(|text| text.parse().ok()) {
        reply.body.truncate(length);
    }
    if reply.header("transfer-encoding").is_some_and(|value| value == "chunked") {
        reply.body = unchunk(&reply.body).ok_or(wrong("an odd chunk"))?;
    }
    Ok(reply)
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        bytes = &bytes[end + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..length)?);
        bytes = bytes.get(length + 2..)?;
    }
}
