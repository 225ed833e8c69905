//! A JSON-RPC proxy in front of the local chain that counts calls and forwards them unchanged.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;
use tokio::task::JoinHandle;

/// A proxy that records the methods of each HTTP request. It stops when dropped.
#[derive(Debug)]
pub struct CountingRpc {
    pub url: String,
    state: ProxyState,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct ProxyState {
    node: String,
    client: reqwest::Client,
    methods_seen: Arc<Mutex<Vec<String>>>,
}

impl CountingRpc {
    /// Starts a proxy in front of the endpoint `node`.
    pub async fn in_front_of(node: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let state = ProxyState { node: node.to_owned(), client, methods_seen: Arc::default() };
        // A simulation of a hostile payment may be larger than axum's default limit.
        let limit = axum::extract::DefaultBodyLimit::max(16 << 20);
        let router = Router::new().route("/", post(answer)).layer(limit).with_state(state.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async move { axum::serve(listener, router).await.expect("served") };
        Self { url, state, server: tokio::spawn(serve) }
    }

    /// Returns and clears the recorded methods, one entry per HTTP request; the calls of a batch are joined by commas.
    pub fn take_methods(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.methods_seen())
    }
}

impl Drop for CountingRpc {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ProxyState {
    fn methods_seen(&self) -> MutexGuard<'_, Vec<String>> {
        self.methods_seen.lock().expect("not poisoned")
    }
}

async fn answer(State(state): State<ProxyState>, body: String) -> Response {
    state.methods_seen().push(methods(&body));
    let request =
        state.client.post(&state.node).header("content-type", "application/json").body(body);
    let answer = async { request.send().await?.bytes().await };
    match answer.await {
        Ok(bytes) => ([("content-type", "application/json")], bytes).into_response(),
        Err(_unreachable) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

fn methods(body: &str) -> String {
    let method = |call: &Value| call["method"].as_str().unwrap_or("?").to_owned();
    match serde_json::from_str(body) {
        Ok(Value::Array(calls)) => calls.iter().map(method).collect::<Vec<_>>().join(","),
        Ok(call) => method(&call),
        Err(_not_json) => "?".to_owned(),
    }
}
