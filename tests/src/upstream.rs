//! A model's server in the test's hand: what it answers, chunk by chunk, and what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// The key that it wants to be asked with.
pub const KEY: &str = "sk-upstream-0123456789abcdef";

/// What it does when it is asked.
#[derive(Debug, Clone)]
pub enum Does {
    /// Answers in one piece.
    Whole(Value),
    /// Answers in one piece of so many bytes.
    Long(usize),
    /// Waits for the gate, then answers in one piece.
    Late(Value),
    /// The same with a stream.
    LateStream(Vec<String>),
    /// Sends pieces, each after a turn of the gate but the first, and ends well or breaks off.
    Pieces { pieces: Vec<String>, breaks: bool },
    /// Sends pieces as they are, at once.
    Stream(Vec<String>),
    /// Sends the head of an answer in one piece, and breaks off within it.
    Half,
    /// Sends the head of an answer in one piece, and then nothing.
    Stalls,
    /// Sends the head of a stream, and breaks off before any piece.
    NoPiece,
    /// Answers with a status and a text.
    Status(u16, String),
    /// Answers with a status and a text, and from then on does the other.
    Once(u16, String, Box<Does>),
    /// Never answers.
    Nothing,
}

#[derive(Debug)]
struct Shared {
    does: Mutex<Does>,
    asked: Mutex<Vec<(HeaderMap, Bytes)>>,
    calls: AtomicUsize,
    models: AtomicUsize,
    gate: Semaphore,
    /// Answers whose reader went away.
    left: AtomicUsize,
}

/// One that listens.
#[derive(Debug)]
pub struct Upstream {
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// An answer of these words.
pub fn answer(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "toy",
        "choices": [{
            "index": 0, "finish_reason": "stop",
            "message": { "role": "assistant", "content": text },
        }],
        "usage": { "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9 },
    })
}

/// Frames of a stream of these words.
pub fn frames(words: &[&str]) -> Vec<String> {
    let frame = |delta: Value, end: Value| {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "toy", "choices": [{ "index": 0, "delta": delta, "finish_reason": end }],
        });
        format!("data: {chunk}\n\n")
    };
    let mut all: Vec<String> =
        words.iter().map(|word| frame(json!({ "content": word }), Value::Null)).collect();
    all.push(frame(json!({}), json!("stop")));
    all.push("data: [DONE]\n\n".to_owned());
    all
}

impl Upstream {
    pub async fn serve(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            does: Mutex::new(does),
            asked: Mutex::default(),
            calls: AtomicUsize::new(0),
            models: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            left: AtomicUsize::new(0),
        });
        let app = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/models", get(models))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ended = axum::serve(listener, app).await;
        });
        Self { url, shared, server }
    }

    /// From now on.
    pub fn does(&self, does: Does) {
        *self.shared.does.lock().expect("held for a moment") = does;
    }

    /// How often it was asked for an answer.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// How often it was asked for its models.
    pub fn models(&self) -> usize {
        self.shared.models.load(Ordering::SeqCst)
    }

    /// How many of its answers nobody read to the end.
    pub fn left(&self) -> usize {
        self.shared.left.load(Ordering::SeqCst)
    }

    /// What it was asked last.
    pub fn last(&self) -> (HeaderMap, Value) {
        let asked = self.shared.asked.lock().expect("held for a moment");
        let (headers, body) = asked.last().expect("it was asked").clone();
        (headers, serde_json::from_slice(&body).expect("JSON"))
    }

    /// The bytes that it was asked with last.
    pub fn last_bytes(&self) -> Bytes {
        self.shared.asked.lock().expect("held for a moment").last().expect("it was asked").1.clone()
    }

    /// Lets so many pieces pass.
    pub fn open(&self, turns: usize) {
        self.shared.gate.add_permits(turns);
    }
}

async fn models(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.models.fetch_add(1, Ordering::SeqCst);
    if !has_key(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Does::Status(status, text) = does(&shared) {
        return said(status, text);
    }
    let list = json!({ "object": "list", "data": [{
        "id": "toy", "object": "model", "created": 1_700_000_000, "owned_by": "us",
    }] });
    told(&list)
}

fn does(shared: &Shared) -> Does {
    shared.does.lock().expect("held for a moment").clone()
}

fn has_key(headers: &HeaderMap) -> bool {
    let bearer = format!("Bearer {KEY}");
    headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes() == bearer.as_bytes())
}

fn said(status: u16, text: String) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    shared.calls.fetch_add(1, Ordering::SeqCst);
    let keyed = has_key(&headers);
    shared.asked.lock().expect("held for a moment").push((headers, body));
    if !keyed {
        return said(401, format!("{{\"error\":{{\"message\":\"wrong key, not {KEY}\"}}}}"));
    }
    match does(&shared) {
        Does::Once(status, text, then) => {
            *shared.does.lock().expect("held for a moment") = *then;
            said(status, text)
        }
        Does::Whole(answer) => told(&answer),
        Does::Long(bytes) => said(200, format!("{{\"a\":\"{}\"}}", "x".repeat(bytes))),
        Does::Late(answer) => {
            turn(&shared).await;
            told(&answer)
        }
        Does::LateStream(pieces) => {
            turn(&shared).await;
            streamed(&shared, pieces, false, false)
        }
        Does::Stream(pieces) => streamed(&shared, pieces, false, false),
        Does::Pieces { pieces, breaks } => streamed(&shared, pieces, breaks, true),
        Does::NoPiece => streamed(&shared, Vec::new(), true, false),
        half @ (Does::Half | Does::Stalls) => {
            let stalls = matches!(half, Does::Stalls);
            let pieces = vec!["{\"id\":".to_owned()];
            let mut response = streamed(&shared, pieces, true, stalls);
            let kind = "application/json".parse().expect("a value");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Does::Status(status, text) => said(status, text),
        Does::Nothing => std::future::pending().await,
    }
}

async fn turn(shared: &Shared) {
    shared.gate.acquire().await.expect("open").forget();
}

fn streamed(shared: &Arc<Shared>, pieces: Vec<String>, breaks: bool, gated: bool) -> Response {
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        for (n, piece) in pieces.into_iter().enumerate() {
            if gated && n > 0 {
                turn(&shared).await;
            }
            if sender.send(Ok(Bytes::from(piece))).await.is_err() {
                shared.left.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
        if breaks {
            if gated {
                turn(&shared).await;
            }
            let _gone = sender.send(Err(std::io::Error::other("breaks off"))).await;
        }
    });
    let stream = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    let mut response = Response::new(Body::from_stream(stream));
    let kind = "text/event-stream; charset=utf-8".parse().expect("a value");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert("x-request-id", "req-1".parse().expect("a value"));
    response
}

fn told(value: &Value) -> Response {
    said(200, value.to_string())
}
