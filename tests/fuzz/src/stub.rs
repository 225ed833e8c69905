//! Small HTTP servers that answer like nodes, upstreams, facilitators, price services and explorers. A target can
//! make them mutate their answers.

pub(crate) mod answers;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bursar_tests::dice::Dice;
use serde_json::Value;

use crate::draw::{mutate_bytes, odd_text, pick};
use crate::json;
use crate::report::escaped;

/// A request to a stub.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) body: Value,
}

/// A valid answer: status, content type and body.
pub(crate) type Answer = (u16, &'static str, Vec<u8>);

#[derive(Debug, Default)]
struct StubState {
    /// If set, mutates the answers.
    dice: Mutex<Option<Dice>>,
    /// The bytes of the mutated answers.
    mutated_answers: Mutex<Vec<Vec<u8>>>,
    calls: AtomicU64,
    /// The number of POST calls by target.
    posts: Mutex<BTreeMap<String, u64>>,
    is_stopping: AtomicBool,
}

/// A server on a free port. It stops when dropped.
#[derive(Debug)]
pub(crate) struct Stub {
    pub(crate) url: String,
    address: SocketAddr,
    shared: Arc<StubState>,
}

impl Stub {
    /// Starts a server whose valid answers come from `answer`.
    pub(crate) fn start(answer: fn(&Call) -> Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(StubState::default());
        let state = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if state.is_stopping.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), state) = (stream, Arc::clone(&state)) else { continue };
                std::thread::spawn(move || serve(&stream, answer, &state));
            }
        });
        Self { url: format!("http://{address}"), address, shared }
    }

    /// Mutates all answers from now on.
    pub(crate) fn mutate_answers(&self, dice: Dice) {
        self.shared.mutated_answers.lock().expect("held for a moment").clear();
        *self.shared.dice.lock().expect("held for a moment") = Some(dice);
    }

    /// Answers validly again. Returns the mutated answers, escaped.
    pub(crate) fn stop_mutating(&self) -> Vec<String> {
        *self.shared.dice.lock().expect("held for a moment") = None;
        let sent =
            std::mem::take(&mut *self.shared.mutated_answers.lock().expect("held for a moment"));
        sent.iter().map(|bytes| escaped(&bytes[..bytes.len().min(3_000)])).collect()
    }

    /// The number of calls since the start.
    pub(crate) fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// The number of POST calls to a target since the start.
    pub(crate) fn posts(&self, target: &str) -> u64 {
        let posts = self.shared.posts.lock().expect("held for a moment");
        posts.get(target).copied().unwrap_or_default()
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the loop that accepts connections.
        let _woken = TcpStream::connect(self.address);
    }
}

fn serve(stream: &TcpStream, answer: fn(&Call) -> Answer, shared: &StubState) {
    let idle = Duration::from_secs(90);
    let bounded = stream.set_read_timeout(Some(idle)).and(stream.set_nodelay(true));
    let Ok(clone) = bounded.and_then(|()| stream.try_clone()) else { return };
    let mut reader = BufReader::new(clone);
    while let Some(call) = read_call(&mut reader) {
        shared.calls.fetch_add(1, Ordering::SeqCst);
        if call.method == "POST" {
            let mut posts = shared.posts.lock().expect("held for a moment");
            *posts.entry(call.target.clone()).or_default() += 1;
        }
        let valid = answer(&call);
        let (bytes, keep) = match &mut *shared.dice.lock().expect("held for a moment") {
            Some(dice) => {
                let bytes = mutated_answer(dice, &valid);
                shared.mutated_answers.lock().expect("held for a moment").push(bytes.clone());
                (bytes, false)
            }
            None => (encode(&valid, ""), true),
        };
        let mut stream = stream;
        if stream.write_all(&bytes).is_err() || !keep {
            return;
        }
    }
}

fn read_call(reader: &mut BufReader<TcpStream>) -> Option<Call> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|count| *count > 0)?;
    let mut words = first.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(count) = lower.strip_prefix("content-length:") {
            length = count.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Call { method, target, body: serde_json::from_slice(&body).unwrap_or_default() })
}

fn encode((status, kind, body): &Answer, more: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status} OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{more}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Mutates an answer: mostly its JSON, else its status, its framing or its bytes.
fn mutated_answer(dice: &mut Dice, (status, kind, body): &Answer) -> Vec<u8> {
    let mut answer = (*status, *kind, body.clone());
    if dice.chance(3, 4) {
        answer.2 = match serde_json::from_slice(body) {
            Ok(value) => json::mutated(dice, &value),
            Err(_events) => mutated_events(dice, body),
        };
    }
    let closes = "connection: close\r\n";
    match dice.roll(24) {
        0 => {
            answer.0 = dice.one_of(&[
                100, 101, 199, 201, 204, 301, 304, 400, 401, 402, 403, 404, 408, 413, 429,
            ])
        }
        1 => answer.0 = dice.one_of(&[500, 502, 503, 504, 599, 600, 999]),
        2 => {
            answer.1 = dice.one_of(&[
                "",
                "text/html",
                "application/json",
                "text/event-stream",
                "image/png",
            ])
        }
        3 => answer.2 = odd_text(dice).into_bytes(),
        4 => answer.2 = vec![dice.one_of(b" [{\"9"); dice.one_of(&[100_000, 9 << 20, 40 << 20])],
        5 => answer.2.clear(),
        6 => {
            let more = pick(
                dice,
                &[
                    "location: http://127.0.0.1:9/\r\n",
                    "content-encoding: gzip\r\n",
                    "retry-after: -1\r\n",
                    "retry-after: 99999999999999999999\r\n",
                    "transfer-encoding: chunked\r\n",
                    "content-length: 1\r\n",
                    "date: Thu, 01 Jan 1970 00:00:00 GMT\r\n",
                    "x-settlement-repeated: true\r\n",
                    "x: \u{1}\r\n",
                    "set-cookie: a=b\r\n",
                    "content-encoding: br\r\n",
                    "upgrade: h2c\r\n",
                ],
            );
            return encode(&answer, &format!("{closes}{more}"));
        }
        7 => {
            let mut bytes = encode(&answer, closes);
            mutate_bytes(dice, &mut bytes);
            return bytes;
        }
        8 => {
            let mut bytes = encode(&answer, closes);
            bytes.truncate(dice.index(bytes.len()));
            return bytes;
        }
        9 => {
            let many = "x-a: b\r\n".repeat(dice.one_of(&[100, 5_000, 50_000]));
            return encode(&answer, &format!("{closes}{many}"));
        }
        _valid_framing => {}
    }
    encode(&answer, closes)
}

/// Mutates server-sent events: one event's JSON, the order of events, or their bytes.
fn mutated_events(dice: &mut Dice, body: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(body).into_owned();
    let mut events: Vec<Vec<u8>> =
        text.split_inclusive("\n\n").map(|event| event.as_bytes().to_vec()).collect();
    if events.is_empty() {
        return body.to_vec();
    }
    let at = dice.index(events.len());
    match dice.roll(7) {
        0 => drop(events.remove(at)),
        1 => events.insert(at, events[at].clone()),
        2 => events.insert(at, format!(": {}\n\n", odd_text(dice)).into_bytes()),
        3 => events.insert(at, vec![b'x'; dice.one_of(&[100, 70_000, 2 << 20])]),
        4 => mutate_bytes(dice, &mut events[at]),
        _json => {
            let value = String::from_utf8_lossy(&events[at]).into_owned();
            let value =
                value.trim().strip_prefix("data: ").and_then(|t| serde_json::from_str(t).ok());
            if let Some(value) = value {
                events[at] = [&b"data: "[..], &json::mutated(dice, &value), b"\n\n"].concat();
            }
        }
    }
    events.concat()
}
