//! A node between the engine and the local chain that records calls: a test sees that the engine has probed, not only
//! that time has passed.

use std::sync::{Arc, Mutex};

use alloy_primitives::B256;
use axum::extract::State;
use axum::routing::post;
use bursar_devnet::Devnet;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stage::{PATIENCE, Stage};

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct Way {
    node: String,
    client: reqwest::Client,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Relay {
    pub(crate) async fn to(chain: &Devnet) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let way = Way { node: chain.url().to_owned(), client, asked: Arc::clone(&asked) };
        let router = axum::Router::new().route("/", post(pass_on)).with_state(way);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let server =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        Self { url, asked, server }
    }

    /// Advances the engine's time until it has requested that transaction's receipt `count` times.
    pub(crate) async fn until_looks(&self, stage: &mut Stage, tx_hash: B256, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.looks(tx_hash) < count {
            assert!(Instant::now() < end, "{} looks, not {count}", self.looks(tx_hash));
            stage.pass().await;
        }
    }

    /// Returns how often that transaction's receipt was requested.
    pub(crate) fn looks(&self, tx_hash: B256) -> usize {
        let asked = self.asked.lock().expect("not poisoned");
        let is_look = |call: &&Value| {
            call["method"] == "eth_getTransactionReceipt"
                && call["params"][0] == tx_hash.to_string()
        };
        asked.iter().filter(is_look).count()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn pass_on(State(way): State<Way>, call: String) -> String {
    let told = way.client.post(&way.node).header("content-type", "application/json");
    let told = told.body(call.clone()).send().await.expect("the chain answers");
    match serde_json::from_str(&call).expect("JSON") {
        Value::Array(calls) => way.asked.lock().expect("not poisoned").extend(calls),
        one => way.asked.lock().expect("not poisoned").push(one),
    }
    told.text().await.expect("text")
}
