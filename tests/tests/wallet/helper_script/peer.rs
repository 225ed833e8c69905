//! A local server that answers as the test wants, or hangs up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Header lines, with their names in lower case.
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// An answer; `None` in its place closes the connection without one.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

pub(crate) fn reply(status: u16, body: &Value) -> Reply {
    Reply { status, headers: Vec::new(), body: body.to_string() }
}

/// Returns a 200 answer with this body.
pub(crate) fn ok_reply(body: String) -> Reply {
    Reply { status: 200, headers: Vec::new(), body }
}

impl Reply {
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A server whose thread ends with the process.
pub(crate) struct Peer {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Peer {
    /// Starts a server; `answer` gets the request and the number of earlier requests.
    pub(crate) fn serve(
        answer: impl Fn(&ReceivedRequest, usize) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let book = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&stream);
                let before = {
                    let mut book = book.lock().unwrap();
                    book.push(request.clone());
                    book.len() - 1
                };
                if let Some(reply) = answer(&request, before) {
                    write(&mut stream, &reply);
                }
            }
        });
        Self { url, received }
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> ReceivedRequest {
    let mut lines = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = Vec::new();
    loop {
        let line = line();
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut received = ReceivedRequest { method, path, headers, body: Vec::new() };
    let length = received.header("content-length").map_or(0, |length| length.parse().unwrap());
    received.body = vec![0; length];
    lines.read_exact(&mut received.body).unwrap();
    received
}

fn write(stream: &mut TcpStream, reply: &Reply) {
    let mut head = format!("HTTP/1.1 {} Said\r\nConnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = reply.body.len();
    let _gone = write!(stream, "{head}Content-Length: {length}\r\n\r\n{}", reply.body);
}
