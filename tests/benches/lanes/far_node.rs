//! A proxy in front of the local chain that delays each call, and records the times of its arrival and its answer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// One call, which may be a batch.
#[derive(Debug, Clone)]
pub struct SeenCall {
    pub method: String,
    /// The number of blocks that a query for logs searches.
    pub blocks: u64,
    pub arrived: Instant,
    pub answered: Instant,
}

#[derive(Debug, Clone)]
pub struct FarNode {
    pub url: String,
    calls: Arc<Mutex<Vec<SeenCall>>>,
    changed: Arc<watch::Sender<()>>,
    /// Whether queries for logs are held.
    holds_logs: Arc<watch::Sender<bool>>,
    blocks_max: u64,
}

impl FarNode {
    /// Starts a proxy in front of `node` that answers `away` later.
    pub async fn start(node: &str, away: Duration) -> Self {
        Self::start_limited(node, away, u64::MAX).await
    }

    /// Like [`FarNode::start`], but refuses queries for the logs of more than `blocks_max` blocks.
    pub async fn start_limited(node: &str, away: Duration, blocks_max: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let far = Self {
            url,
            calls: Arc::default(),
            changed: Arc::new(watch::channel(()).0),
            holds_logs: Arc::new(watch::channel(false).0),
            blocks_max,
        };
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let state = (far.clone(), node.to_owned(), client, away);
        let app = Router::new().route("/", post(delay_and_forward)).with_state(state);
        tokio::spawn(async move { axum::serve(listener, app).await });
        far
    }

    /// Sets whether queries for logs are held from now on.
    pub fn hold_logs(&self, holds: bool) {
        self.holds_logs.send_replace(holds);
    }

    /// Returns the calls since the previous `take_calls`.
    pub fn take_calls(&self) -> Vec<SeenCall> {
        std::mem::take(&mut *self.calls.lock().expect("not poisoned"))
    }

    /// Waits for the first call of a method since the last [`FarNode::take_calls`].
    pub async fn wait_for_call(&self, method: &str) -> SeenCall {
        let mut changed = self.changed.subscribe();
        loop {
            let found = {
                let calls = self.calls.lock().expect("not poisoned");
                calls.iter().find(|call| call.method == method).cloned()
            };
            if let Some(call) = found {
                return call;
            }
            changed.changed().await.expect("a running proxy");
        }
    }
}

/// Returns the length of the longest sequence of calls in which each began after the previous one was answered.
pub fn sequential_trips(calls: &[SeenCall]) -> usize {
    let mut ordered: Vec<&SeenCall> = calls.iter().collect();
    ordered.sort_by_key(|call| call.answered);
    let mut last = None;
    let mut count = 0;
    for call in ordered {
        if last.is_none_or(|last| call.arrived >= last) {
            (last, count) = (Some(call.answered), count + 1);
        }
    }
    count
}

type FarNodeState = (FarNode, String, reqwest::Client, Duration);

async fn delay_and_forward(
    State((far, node, client, away)): State<FarNodeState>,
    body: Bytes,
) -> Response<Body> {
    let arrived = Instant::now();
    let (method, blocks) = method_and_blocks(&body);
    if method == "eth_getLogs" {
        let mut holds = far.holds_logs.subscribe();
        let _open = holds.wait_for(|holds| !holds).await.expect("a running proxy");
    }
    tokio::time::sleep(away).await;
    if blocks > far.blocks_max {
        return Response::new(Body::from(refusal(&body)));
    }
    let request = client.post(node).header("content-type", "application/json").body(body);
    let answer = request.send().await.expect("answered").bytes().await.expect("bytes");
    let call = SeenCall { method, blocks, arrived, answered: Instant::now() };
    far.calls.lock().expect("not poisoned").push(call);
    far.changed.send_replace(());
    Response::new(Body::from(answer))
}

fn refusal(body: &[u8]) -> String {
    let call: Value = serde_json::from_slice(body).expect("JSON");
    let error = json!({ "code": -32_602, "message": "query exceeds max block range" });
    json!({ "jsonrpc": "2.0", "id": call["id"], "error": error }).to_string()
}

/// Returns the method of a call, and the number of blocks that it searches.
fn method_and_blocks(body: &[u8]) -> (String, u64) {
    let call: Value = serde_json::from_slice(body).expect("JSON");
    let number = |field: &str| {
        let text = call["params"][0][field].as_str()?;
        u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let blocks = number("toBlock").zip(number("fromBlock")).map_or(0, |(to, from)| to - from + 1);
    (call["method"].as_str().unwrap_or("batch").to_owned(), blocks)
}
