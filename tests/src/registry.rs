//! A registry of mandates with the documented interface, which misbehaves on demand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// How the registry treats one request.
#[derive(Debug, Clone)]
pub enum RegistryMode {
    /// Stores a mandate, and breaks the connection in place of an answer.
    DropsTheAnswer,
    /// Breaks the connection before it stores anything.
    DropsTheRequest,
    /// Stores or looks up as usual, and answers with this text.
    Says(u16, String),
    /// Answers with this text, and stores nothing.
    Refuses(u16, String),
    /// Redirects to another server.
    Redirects,
    /// Sends zeros until the client stops reading.
    Endless,
    /// Stores as usual, and names an id that it does not have.
    NamesAnotherId,
    /// Looks up as usual, and changes the daily limit in the answer.
    ShowsAChange,
    /// Looks up as usual, and answers with the mandate inside another object.
    Wraps,
    /// Waits for the gate, then answers as usual.
    Waits,
}

#[derive(Debug, Default)]
struct Stored {
    /// Mandates by agent code.
    mandates: BTreeMap<String, Value>,
    posts: VecDeque<RegistryMode>,
    lookups: VecDeque<RegistryMode>,
    calls: Vec<String>,
}

#[derive(Debug)]
struct Shared {
    stored: Mutex<Stored>,
    gate: Semaphore,
}

/// A registry on this machine. It stops when dropped.
#[derive(Debug)]
pub struct TestRegistry {
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl TestRegistry {
    /// Starts an empty registry.
    ///
    /// # Panics
    /// No port is free.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared { stored: Mutex::default(), gate: Semaphore::new(0) });
        let app = Router::new()
            .route("/base/api/mandates", get(answer).post(answer))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/base", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
        Self { url, shared, server }
    }

    /// Sets how the next uploads are treated, in order; later ones as usual.
    pub fn next_posts(&self, modes: impl IntoIterator<Item = RegistryMode>) {
        self.locked(|stored| stored.posts = modes.into_iter().collect());
    }

    /// Sets how the next lookups are treated, in order; later ones as usual.
    pub fn next_lookups(&self, modes: impl IntoIterator<Item = RegistryMode>) {
        self.locked(|stored| stored.lookups = modes.into_iter().collect());
    }

    /// Lets one waiting request continue.
    pub fn open_gate(&self) {
        self.shared.gate.add_permits(1);
    }

    /// Returns the mandate of an agent.
    pub fn mandate_of(&self, agent: &str) -> Option<Value> {
        self.locked(|stored| stored.mandates.get(agent).cloned())
    }

    /// Removes the mandates of all agents.
    pub fn forget(&self) {
        self.locked(|stored| stored.mandates.clear());
    }

    /// Returns the requests since the last call of this method, like `POST` or `GET id`.
    pub fn take_calls(&self) -> Vec<String> {
        self.locked(|stored| std::mem::take(&mut stored.calls))
    }

    fn locked<T>(&self, act: impl FnOnce(&mut Stored) -> T) -> T {
        act(&mut self.shared.stored.lock().expect("no panic"))
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    let mode = {
        let mut stored = shared.stored.lock().expect("no panic");
        let parameters: Vec<String> = query.keys().cloned().collect();
        stored.calls.push(format!("{method} {}", parameters.join(",")).trim().to_owned());
        match method == Method::POST {
            true => stored.posts.pop_front(),
            false => stored.lookups.pop_front(),
        }
    };
    match &mode {
        Some(RegistryMode::DropsTheRequest) => return broken(),
        Some(RegistryMode::Refuses(status, text)) => return says(*status, text.clone()),
        Some(RegistryMode::Redirects) => {
            return (StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:1/")])
                .into_response();
        }
        Some(RegistryMode::Endless) => return endless(),
        Some(RegistryMode::Waits) => shared.gate.acquire().await.expect("open").forget(),
        _other => {}
    }
    let (status, mut usual) = match method == Method::POST {
        true => store(&shared, &body),
        false => look_up(&shared, &query),
    };
    match mode {
        Some(RegistryMode::DropsTheAnswer) => return broken(),
        Some(RegistryMode::Says(status, text)) => return says(status, text),
        Some(RegistryMode::NamesAnotherId) => usual["id"] = json!("another"),
        Some(RegistryMode::ShowsAChange) => {
            usual["authorization"]["limits"]["dailyLimit"] = json!(1_000_000_000);
        }
        Some(RegistryMode::Wraps) => usual = json!({ "mandate": usual }),
        _other => {}
    }
    says(status, usual.to_string())
}

/// Returns an answer that ends before the promised length.
fn broken() -> Response {
    let chunks =
        futures::stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::ErrorKind::Other)]);
    let chunks = futures::StreamExt::map(chunks, |one| one.map_err(std::io::Error::from));
    Response::new(Body::from_stream(chunks))
}

fn endless() -> Response {
    let zeros =
        futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b'0'; 4096])));
    Response::new(Body::from_stream(zeros))
}

fn says(status: u16, text: String) -> Response {
    (StatusCode::from_u16(status).expect("a status"), text).into_response()
}

/// Stores a mandate by the agent's code. Only the same signer replaces one.
fn store(shared: &Shared, body: &[u8]) -> (u16, Value) {
    let error = |status: u16, code: &str| (status, json!({ "error": code, "code": code }));
    if body.len() > 50_000 {
        return error(413, "PAYLOAD_TOO_LARGE");
    }
    let Ok(mandate) = serde_json::from_slice::<Value>(body) else {
        return error(400, "INVALID_MANDATE");
    };
    let text = |pointer: &str| mandate.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let Some(agent) = text("/agent/id") else { return error(400, "MISSING_AGENT_ID") };
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    if !(3..=8).contains(&agent.len()) || !agent.bytes().all(fits) {
        return error(400, "INVALID_AGENT_ID");
    }
    let mut stored = shared.stored.lock().expect("no panic");
    let before = stored.mandates.get(&agent);
    let signer = |of: &Value| of.pointer("/signature/signer").cloned();
    if before.is_some_and(|before| signer(before) != signer(&mandate)) {
        return error(403, "SIGNER_MISMATCH");
    }
    let id = text("/id").unwrap_or_default();
    let is_taken = |other: &Value| other["id"] == id.as_str();
    if stored.mandates.iter().any(|(code, other)| *code != agent && is_taken(other)) {
        return error(409, "DUPLICATE_ID");
    }
    let status = if before.is_some() { 200 } else { 201 };
    stored.mandates.insert(agent, mandate);
    (status, json!({ "id": id, "url": page(&id), "message": "stored" }))
}

fn page(id: &str) -> String {
    format!("https://registry.example/mandate.html?id={id}")
}

fn look_up(shared: &Shared, query: &BTreeMap<String, String>) -> (u16, Value) {
    let stored = shared.stored.lock().expect("no panic");
    let Some(id) = query.get("id") else { return (400, json!({ "error": "MISSING_QUERY" })) };
    match stored.mandates.values().find(|mandate| mandate["id"] == id.as_str()) {
        Some(found) => {
            let mut found = found.clone();
            found["registryId"] = json!(id);
            found["registryUrl"] = json!(page(id));
            (200, found)
        }
        None => (404, json!({ "error": "NOT_FOUND" })),
    }
}
