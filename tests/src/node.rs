//! A fake chain node: the test decides which queries for a transaction find one.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::payer::now_s;

/// The node's answer to queries for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownTransactions {
    Everything,
    Nothing,
    /// The next queries find their transactions, up to this number; later ones find none.
    Times(usize),
    /// The node returns status 500.
    Broken,
}

#[derive(Debug)]
struct NodeState {
    known: Mutex<KnownTransactions>,
    chain: u64,
    lookups: AtomicUsize,
    /// The seconds by which the newest block is ahead of this machine's clock.
    ahead_s: AtomicU64,
}

/// A fake node that knows every transaction until the test changes that. It stops when dropped.
#[derive(Debug)]
pub struct FakeNode {
    pub url: String,
    shared: Arc<NodeState>,
    server: JoinHandle<()>,
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl FakeNode {
    /// Starts a node of Base.
    pub async fn serve() -> Self {
        Self::on_chain(8453).await
    }

    /// Starts a node of another chain.
    pub async fn on_chain(chain: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let known = Mutex::new(KnownTransactions::Everything);
        let (lookups, ahead_s) = (AtomicUsize::new(0), AtomicU64::new(0));
        let shared = Arc::new(NodeState { known, chain, lookups, ahead_s });
        let app = Router::new().route("/", post(answer)).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ended = axum::serve(listener, app).await;
        });
        Self { url, shared, server }
    }

    /// Changes the answer to queries for transactions from now on.
    pub fn set_known(&self, known: KnownTransactions) {
        *self.shared.known.lock().expect("held for a moment") = known;
    }

    /// Sets the seconds by which the newest block is ahead of this machine's clock.
    pub fn set_ahead(&self, seconds: u64) {
        self.shared.ahead_s.store(seconds, Ordering::SeqCst);
    }

    /// Returns the number of queries for a transaction.
    pub fn lookups(&self) -> usize {
        self.shared.lookups.load(Ordering::SeqCst)
    }
}

async fn answer(State(shared): State<Arc<NodeState>>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    let result = match request["method"].as_str() {
        Some("eth_chainId") => json!(format!("{:#x}", shared.chain)),
        Some("eth_getBlockByNumber") => {
            let ahead_s = shared.ahead_s.load(Ordering::SeqCst);
            json!({ "timestamp": format!("{:#x}", now_s() + ahead_s) })
        }
        Some("eth_getTransactionByHash") => {
            shared.lookups.fetch_add(1, Ordering::SeqCst);
            let mut known = shared.known.lock().expect("held for a moment");
            match *known {
                KnownTransactions::Everything => json!({ "hash": request["params"][0] }),
                KnownTransactions::Nothing | KnownTransactions::Times(0) => Value::Null,
                KnownTransactions::Times(left) => {
                    *known = KnownTransactions::Times(left - 1);
                    json!({ "hash": request["params"][0] })
                }
                KnownTransactions::Broken => {
                    return StatusCode::INTERNAL_SERVER_ERROR.into_response();
                }
            }
        }
        other => panic!("a node is asked for {other:?}"),
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string().into_response()
}
