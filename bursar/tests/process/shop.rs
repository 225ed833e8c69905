//! A server that responds as a test specifies and records its requests. It checks no payment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// One received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    pub(crate) line: String,
    /// The headers in the order received, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn payment(&self) -> Option<&str> {
        self.header("payment-signature").or_else(|| self.header("x-payment"))
    }

    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let (line, headers) = lines.split_first()?;
        let headers = headers.iter().filter_map(|header| header.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let mut seen = Self { line: line.clone(), headers: headers.collect(), body: String::new() };
        let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
        reader.take(length).read_to_string(&mut seen.body).ok()?;
        Some(seen)
    }
}

/// A server that runs until the test process ends.
pub(crate) struct Shop {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Shop {
    /// Starts a server. `answer` writes the response; then the connection is closed.
    pub(crate) fn open(
        mut answer: impl FnMut(&ReceivedRequest, &mut TcpStream) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/goods?x=1", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                if let Some(request) = ReceivedRequest::read(&stream) {
                    remembered.lock().unwrap().push(request.clone());
                    answer(&request, &mut stream);
                }
            }
        });
        Self { url, requests: seen }
    }

    /// Starts a server that requires a payment and then responds with `paid`.
    pub(crate) fn selling(
        atoms: &'static str,
        mut paid: impl FnMut(&mut TcpStream) + Send + 'static,
    ) -> Self {
        Self::open(move |request, stream| match request.payment() {
            None => write_response(
                stream,
                "402 Payment Required",
                &[("payment-required", &encode_header(&offer(atoms)))],
                "{}",
            ),
            Some(_) => paid(stream),
        })
    }

    /// Returns the URL without its path.
    pub(crate) fn base(&self) -> &str {
        self.url.trim_end_matches("/goods?x=1")
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the payments received, in order.
    pub(crate) fn payments(&self) -> Vec<String> {
        self.requests().iter().filter_map(ReceivedRequest::payment).map(str::to_owned).collect()
    }
}

/// Writes a complete response. Ignores errors, because the command may have gone away.
pub(crate) fn write_response(
    stream: &mut TcpStream,
    status: &str,
    headers: &[(&str, &str)],
    body: &str,
) {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    let _gone = write!(stream, "{head}{body}");
}

/// Returns an offer in Base's stablecoin (x402 v2).
pub(crate) fn offer(atoms: &str) -> Value {
    let coin = bursar_core::networks::by_id_name_or_title("8453").unwrap().stablecoin;
    json!({
        "x402Version": 2,
        "error": "Payment required",
        "resource": { "url": "https://shop.example/goods" },
        "accepts": [{
            "scheme": "exact", "network": "eip155:8453", "amount": atoms,
            "asset": coin.address.to_checksum(None),
            "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C", "maxTimeoutSeconds": 60,
            "extra": { "name": coin.domain_name, "version": coin.domain_version },
        }],
    })
}

/// Encodes JSON for a header.
pub(crate) fn encode_header(value: &Value) -> String {
    STANDARD.encode(value.to_string())
}
