//! A minimal HTTP/1 client: the test writes the request's bytes, the client parses the responses.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Timeout of a read: longer than any timeout of the server, so only a hanging test reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// Whether the response is HTTP/1.0, where the connection closes unless the response states otherwise.
    is_http_1_0: bool,
    /// Header names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns the first header of this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON; null if it is not valid JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// Returns the error code in the body, or an empty string.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns whether the server closes the connection after this response.
    pub fn closes_connection(&self) -> bool {
        match self.header("connection") {
            Some(option) => option == "close",
            None => self.is_http_1_0,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RawClient {
    /// Connects to a server.
    pub async fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("connected");
        stream.set_nodelay(true).expect("a live socket");
        Self { stream, received: Vec::new() }
    }

    /// Connects from another address of this machine.
    pub async fn connect_from(own: IpAddr, address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(own, 0))?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends bytes, and ignores write errors.
    ///
    /// The server may already have answered and closed the connection.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _closed = self.stream.write_all(bytes).await;
    }

    /// Sends the bytes one at a time.
    pub async fn send_bytewise(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.send(&[*byte]).await;
            tokio::task::yield_now().await;
        }
    }

    /// Reads the next response; `None` if the server has closed the connection. If `to_head`, it has no body.
    pub async fn reply(&mut self, to_head: bool) -> Option<Reply> {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !self.receive().await {
                assert!(self.received.is_empty(), "half an answer: {:?}", self.received);
                return None;
            }
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).expect("ASCII");
        let mut lines = head.trim_end().split("\r\n");
        let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")).expect("HTTP/1");
        let is_old = first.starts_with('0');
        let status = first.get(2..5).and_then(|code| code.parse().ok()).expect("a status");
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").expect("a header"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut reply = Reply { status, is_http_1_0: is_old, headers, body: Vec::new() };
        if reply.status != 100 {
            let length = reply.header("content-length").expect("a length").parse().expect("digits");
            while !to_head && self.received.len() < length {
                assert!(self.receive().await, "half a body");
            }
            let length = if to_head { 0 } else { length };
            reply.body = self.received.drain(..length).collect();
        }
        Some(reply)
    }

    async fn receive(&mut self) -> bool {
        let read = timeout(TIMEOUT, self.stream.read_buf(&mut self.received)).await;
        // A reset counts as the end of the connection, too.
        read.expect("the server neither answers nor closes").is_ok_and(|count| count > 0)
    }

    /// Sends one request and reads its response.
    pub async fn ask(&mut self, bytes: &[u8]) -> Reply {
        self.send(bytes).await;
        self.reply(bytes.starts_with(b"HEAD ")).await.expect("an answer")
    }

    /// Returns whether the server accepts another request on this connection.
    pub async fn accepts_another_request(mut self) -> bool {
        self.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        let Some(reply) = self.reply(false).await else { return false };
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(self.reply(false).await.is_none(), "one request, two answers");
        true
    }
}
