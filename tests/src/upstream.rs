//! A scripted model server: the test chooses its responses, piece by piece, and reads the requests it received.

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

/// The API key that the server requires.
pub const KEY: &str = "sk-upstream-0123456789abcdef";

/// How the server responds.
#[derive(Debug, Clone)]
pub enum Behavior {
    /// Responds in one piece.
    Whole(Value),
    /// Responds in one piece with a filler of this many bytes.
    Long(usize),
    /// Waits for the gate, then responds in one piece.
    Late(Value),
    /// Waits for the gate, then streams these pieces.
    LateStream(Vec<String>),
    /// Streams pieces. Each piece but the first waits for the gate. If `breaks`, the stream then breaks off.
    Pieces { pieces: Vec<String>, breaks: bool },
    /// Streams all pieces at once.
    Stream(Vec<String>),
    /// Sends the start of a one-piece response and breaks off.
    Half,
    /// Sends the start of a one-piece response and then stalls until the gate opens.
    Stalls,
    /// Sends the head of a stream and breaks off before the first piece.
    NoPiece,
    /// Responds with a status and a text.
    Status(u16, String),
    /// Responds once with the first behavior, and then switches to the second.
    Then(Box<Behavior>, Box<Behavior>),
    /// Never responds.
    Nothing,
}

#[derive(Debug)]
struct UpstreamState {
    behavior: Mutex<Behavior>,
    requests: Mutex<Vec<(HeaderMap, Bytes)>>,
    calls: AtomicUsize,
    models: AtomicUsize,
    gate: Semaphore,
    /// Number of responses whose reader went away.
    abandoned: AtomicUsize,
}

/// A scripted model server. It stops when dropped.
#[derive(Debug)]
pub struct Upstream {
    pub url: String,
    shared: Arc<UpstreamState>,
    server: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Returns a chat completion with this text.
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

/// Returns the server-sent events of a streamed completion with these words.
pub fn frames(words: &[&str]) -> Vec<String> {
    events(words.iter().map(|word| json!({ "content": word })), "stop")
}

/// Like [`frames`], but begins with an event that has the role, as OpenAI's API does.
pub fn frames_with_role(words: &[&str]) -> Vec<String> {
    let role = json!({ "role": "assistant", "content": "" });
    let words = words.iter().map(|word| json!({ "content": word }));
    events(std::iter::once(role).chain(words), "stop")
}

fn events(deltas: impl IntoIterator<Item = Value>, end: &str) -> Vec<String> {
    let event = |delta: Value, end: Value| {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "toy", "choices": [{ "index": 0, "delta": delta, "finish_reason": end }],
        });
        format!("data: {chunk}\n\n")
    };
    let mut all: Vec<String> = deltas.into_iter().map(|delta| event(delta, Value::Null)).collect();
    all.push(event(json!({}), json!(end)));
    all.push("data: [DONE]\n\n".to_owned());
    all
}

/// Returns a chat completion that calls the tool `clock`, with all members that OpenAI's API writes.
pub fn tool_call() -> Value {
    let mut completion = answer("");
    completion["choices"][0]["finish_reason"] = json!("tool_calls");
    completion["choices"][0]["message"] = json!({
        "role": "assistant", "content": null, "refusal": null, "annotations": [],
        "tool_calls": [{
            "id": "call_1", "type": "function",
            "function": { "name": "clock", "arguments": "{\"zone\":\"UTC\"}" },
        }],
    });
    completion
}

/// Returns the server-sent events of the streamed [`tool_call`]; its arguments come in two parts.
pub fn tool_call_frames() -> Vec<String> {
    let start = json!({
        "role": "assistant", "content": null, "refusal": null, "annotations": [],
        "tool_calls": [{
            "index": 0, "id": "call_1", "type": "function",
            "function": { "name": "clock", "arguments": "" },
        }],
    });
    let part =
        |text: &str| json!({ "tool_calls": [{ "index": 0, "function": { "arguments": text } }] });
    events([start, part("{\"zone\":"), part("\"UTC\"}")], "tool_calls")
}

impl Upstream {
    /// Starts a server with this behavior.
    pub async fn serve(behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let shared = Arc::new(UpstreamState {
            behavior: Mutex::new(behavior),
            requests: Mutex::default(),
            calls: AtomicUsize::new(0),
            models: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            abandoned: AtomicUsize::new(0),
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

    /// Changes how the server responds from now on.
    pub fn set_behavior(&self, behavior: Behavior) {
        *self.shared.behavior.lock().expect("held for a moment") = behavior;
    }

    /// Returns the number of chat requests.
    pub fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }

    /// Returns the number of requests for the list of models.
    pub fn model_list_calls(&self) -> usize {
        self.shared.models.load(Ordering::SeqCst)
    }

    /// Returns the number of responses that the client did not read to the end.
    pub fn abandoned_responses(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }

    /// Returns headers and JSON body of the last chat request.
    pub fn last_request(&self) -> (HeaderMap, Value) {
        let requests = self.shared.requests.lock().expect("held for a moment");
        let (headers, body) = requests.last().expect("a request").clone();
        (headers, serde_json::from_slice(&body).expect("JSON"))
    }

    /// Returns the body of the last chat request as bytes.
    pub fn last_body(&self) -> Bytes {
        self.shared.requests.lock().expect("held for a moment").last().expect("a request").1.clone()
    }

    /// Lets this many pieces through the gate.
    pub fn open_gate(&self, permits: usize) {
        self.shared.gate.add_permits(permits);
    }
}

async fn models(State(shared): State<Arc<UpstreamState>>, headers: HeaderMap) -> Response {
    shared.models.fetch_add(1, Ordering::SeqCst);
    if !has_key(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if let Behavior::Status(status, text) = behavior(&shared) {
        return text_response(status, text);
    }
    let list = json!({ "object": "list", "data": [{
        "id": "toy", "object": "model", "created": 1_700_000_000, "owned_by": "us",
    }] });
    json_response(&list)
}

fn behavior(shared: &UpstreamState) -> Behavior {
    shared.behavior.lock().expect("held for a moment").clone()
}

/// Returns the behavior for one chat request.
fn next_behavior(shared: &UpstreamState) -> Behavior {
    let mut behavior = shared.behavior.lock().expect("held for a moment");
    match behavior.clone() {
        Behavior::Then(first, then) => {
            *behavior = *then;
            *first
        }
        other => other,
    }
}

fn has_key(headers: &HeaderMap) -> bool {
    let bearer = format!("Bearer {KEY}");
    headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes() == bearer.as_bytes())
}

fn text_response(status: u16, text: String) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn chat(
    State(shared): State<Arc<UpstreamState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.calls.fetch_add(1, Ordering::SeqCst);
    let keyed = has_key(&headers);
    shared.requests.lock().expect("held for a moment").push((headers, body));
    if !keyed {
        return text_response(
            401,
            format!("{{\"error\":{{\"message\":\"wrong key, not {KEY}\"}}}}"),
        );
    }
    match next_behavior(&shared) {
        Behavior::Then(..) => unreachable!("it does not contain itself"),
        Behavior::Whole(answer) => json_response(&answer),
        // Inserts the filler after serialising, because serialising megabytes would take longer than
        // the timeouts of some tests.
        Behavior::Long(bytes) => {
            let text = answer("filler").to_string().replace("filler", &"x".repeat(bytes));
            text_response(200, text)
        }
        Behavior::Late(answer) => {
            pass_gate(&shared).await;
            json_response(&answer)
        }
        Behavior::LateStream(pieces) => {
            pass_gate(&shared).await;
            stream_response(&shared, pieces, false, false)
        }
        Behavior::Stream(pieces) => stream_response(&shared, pieces, false, false),
        Behavior::Pieces { pieces, breaks } => stream_response(&shared, pieces, breaks, true),
        Behavior::NoPiece => stream_response(&shared, Vec::new(), true, false),
        half @ (Behavior::Half | Behavior::Stalls) => {
            let stalls = matches!(half, Behavior::Stalls);
            let pieces = vec!["{\"id\":".to_owned()];
            let mut response = stream_response(&shared, pieces, true, stalls);
            let kind = "application/json".parse().expect("a value");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Behavior::Status(status, text) => text_response(status, text),
        Behavior::Nothing => std::future::pending().await,
    }
}

async fn pass_gate(shared: &UpstreamState) {
    shared.gate.acquire().await.expect("open").forget();
}

fn stream_response(
    shared: &Arc<UpstreamState>,
    pieces: Vec<String>,
    breaks: bool,
    gated: bool,
) -> Response {
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        for (n, piece) in pieces.into_iter().enumerate() {
            if gated && n > 0 {
                pass_gate(&shared).await;
            }
            if sender.send(Ok(Bytes::from(piece))).await.is_err() {
                shared.abandoned.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
        if breaks {
            if gated {
                pass_gate(&shared).await;
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

fn json_response(value: &Value) -> Response {
    text_response(200, value.to_string())
}
