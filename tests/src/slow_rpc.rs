//! A JSON-RPC proxy in front of the local chain that holds each call for a drawn time and forwards it unchanged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::task::JoinHandle;

use crate::dice::Dice;

/// A proxy whose answers are slow. It stops when dropped.
#[derive(Debug)]
pub struct SlowRpc {
    pub url: String,
    state: ProxyState,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct ProxyState {
    node: String,
    client: reqwest::Client,
    dice: Arc<Mutex<Dice>>,
    slowest_ms: Arc<AtomicU64>,
}

impl SlowRpc {
    /// Starts a proxy in front of the endpoint `node`. It holds each call for 0 to `slowest`, drawn from `dice`.
    pub async fn in_front_of(node: &str, slowest: Duration, dice: Dice) -> Self {
        let state = ProxyState {
            node: node.to_owned(),
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            dice: Arc::new(Mutex::new(dice)),
            slowest_ms: Arc::default(),
        };
        let limit = axum::extract::DefaultBodyLimit::max(16 << 20);
        let router = Router::new().route("/", post(answer)).layer(limit).with_state(state.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async move { axum::serve(listener, router).await.expect("served") };
        let proxy = Self { url, state, server: tokio::spawn(serve) };
        proxy.slow_down(slowest);
        proxy
    }

    /// Holds each call from now on for 0 to `slowest`.
    pub fn slow_down(&self, slowest: Duration) {
        let ms = u64::try_from(slowest.as_millis()).expect("a short time");
        self.state.slowest_ms.store(ms, Ordering::SeqCst);
    }
}

impl Drop for SlowRpc {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(State(state): State<ProxyState>, body: String) -> Response {
    let slowest = state.slowest_ms.load(Ordering::SeqCst);
    let held = state.dice.lock().expect("not poisoned").roll(slowest + 1);
    tokio::time::sleep(Duration::from_millis(held)).await;
    let request =
        state.client.post(&state.node).header("content-type", "application/json").body(body);
    let answer = async { request.send().await?.bytes().await };
    match answer.await {
        Ok(bytes) => ([("content-type", "application/json")], bytes).into_response(),
        Err(_unreachable) => StatusCode::BAD_GATEWAY.into_response(),
    }
}
