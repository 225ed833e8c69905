//! A JSON-RPC proxy in front of the local chain that delays each call by a random time and forwards it unchanged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use axum::routing::post;

use crate::dice::Dice;
use crate::rpc_server::{NodeClient, RpcServer};

/// A proxy whose answers are slow. It stops when dropped.
#[derive(Debug)]
pub struct SlowRpc {
    pub url: String,
    state: ProxyState,
    _server: RpcServer,
}

#[derive(Debug, Clone)]
struct ProxyState {
    node: NodeClient,
    dice: Arc<Mutex<Dice>>,
    slowest_ms: Arc<AtomicU64>,
}

impl SlowRpc {
    /// Starts a proxy in front of `node` that delays each call by 0 to `slowest`, drawn from `dice`.
    pub async fn in_front_of(node: &str, slowest: Duration, dice: Dice) -> Self {
        let state = ProxyState {
            node: NodeClient::new(node),
            dice: Arc::new(Mutex::new(dice)),
            slowest_ms: Arc::default(),
        };
        let server = RpcServer::start(post(answer), state.clone()).await;
        let proxy = Self { url: server.url.clone(), state, _server: server };
        proxy.slow_down(slowest);
        proxy
    }

    /// From now on, delays each call by 0 to `slowest`.
    pub fn slow_down(&self, slowest: Duration) {
        let ms = u64::try_from(slowest.as_millis()).expect("a short time");
        self.state.slowest_ms.store(ms, Ordering::SeqCst);
    }
}

async fn answer(State(state): State<ProxyState>, body: String) -> Response {
    let slowest = state.slowest_ms.load(Ordering::SeqCst);
    let held = state.dice.lock().expect("not poisoned").roll(slowest + 1);
    tokio::time::sleep(Duration::from_millis(held)).await;
    state.node.forward(body).await
}
