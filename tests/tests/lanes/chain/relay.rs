//! A node between the engine and the local chain that records calls. It shows a test that the engine has probed, and
//! not only that time has passed.

use std::sync::{Arc, Mutex};

use alloy_primitives::B256;
use axum::extract::State;
use axum::routing::post;
use bursar_devnet::Devnet;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::chain::stage::{Stage, TIMEOUT};

#[derive(Debug)]
pub(crate) struct RecordingNode {
    pub(crate) url: String,
    calls_seen: Arc<Mutex<Vec<Value>>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct RecordingNodeState {
    node: String,
    client: reqwest::Client,
    calls_seen: Arc<Mutex<Vec<Value>>>,
}

impl RecordingNode {
    pub(crate) async fn in_front_of(chain: &Devnet) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let calls_seen = Arc::<Mutex<Vec<Value>>>::default();
        let state = RecordingNodeState {
            node: chain.url().to_owned(),
            client,
            calls_seen: Arc::clone(&calls_seen),
        };
        let router = axum::Router::new().route("/", post(record_and_forward)).with_state(state);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        Self { url, calls_seen, server }
    }

    /// Advances the engine's time until it has requested that transaction's receipt `count` times.
    pub(crate) async fn until_probed(&self, stage: &mut Stage, tx_hash: B256, count: usize) {
        let end = Instant::now() + TIMEOUT;
        while self.probe_count(tx_hash) < count {
            assert!(Instant::now() < end, "{} probes, not {count}", self.probe_count(tx_hash));
            stage.advance_half_second().await;
        }
    }

    /// Returns how often that transaction's receipt was requested.
    pub(crate) fn probe_count(&self, tx_hash: B256) -> usize {
        let calls_seen = self.calls_seen.lock().expect("not poisoned");
        let is_probe = |call: &&Value| {
            call["method"] == "eth_getTransactionReceipt"
                && call["params"][0] == tx_hash.to_string()
        };
        calls_seen.iter().filter(is_probe).count()
    }
}

impl Drop for RecordingNode {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn record_and_forward(State(state): State<RecordingNodeState>, call: String) -> String {
    let answer = state.client.post(&state.node).header("content-type", "application/json");
    let answer = answer.body(call.clone()).send().await.expect("the chain answers");
    match serde_json::from_str(&call).expect("JSON") {
        Value::Array(calls) => state.calls_seen.lock().expect("not poisoned").extend(calls),
        one => state.calls_seen.lock().expect("not poisoned").push(one),
    }
    answer.text().await.expect("text")
}
