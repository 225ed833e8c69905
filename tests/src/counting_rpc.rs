//! A JSON-RPC proxy in front of the local chain that counts calls and forwards them unchanged.

use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use serde_json::Value;

use crate::rpc_server::{NodeClient, RpcServer};

/// A proxy that records the methods of each HTTP request. It stops when dropped.
#[derive(Debug)]
pub struct CountingRpc {
    pub url: String,
    state: ProxyState,
    _server: RpcServer,
}

#[derive(Debug, Clone)]
struct ProxyState {
    node: NodeClient,
    methods_seen: Arc<Mutex<Vec<String>>>,
}

impl CountingRpc {
    /// Starts a proxy in front of the endpoint `node`.
    pub async fn in_front_of(node: &str) -> Self {
        let state = ProxyState { node: NodeClient::new(node), methods_seen: Arc::default() };
        let server = RpcServer::start(post(answer), state.clone()).await;
        Self { url: server.url.clone(), state, _server: server }
    }

    /// Returns and clears the recorded methods, one entry per HTTP request; the calls of a batch are joined by commas.
    pub fn take_methods(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.methods_seen())
    }
}

impl ProxyState {
    fn methods_seen(&self) -> MutexGuard<'_, Vec<String>> {
        self.methods_seen.lock().expect("not poisoned")
    }
}

async fn answer(State(state): State<ProxyState>, body: String) -> Response {
    state.methods_seen().push(methods(&body));
    state.node.forward(body).await
}

fn methods(body: &str) -> String {
    let method = |call: &Value| call["method"].as_str().unwrap_or("?").to_owned();
    match serde_json::from_str(body) {
        Ok(Value::Array(calls)) => calls.iter().map(method).collect::<Vec<_>>().join(","),
        Ok(call) => method(&call),
        Err(_not_json) => "?".to_owned(),
    }
}
