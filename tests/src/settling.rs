//! A scripted facilitator that gives responses a correct one never gives.
//!
//! All other tests use our own facilitator and official clients.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// How the facilitator responds to a request.
#[derive(Debug, Clone)]
pub enum Says {
    /// As a correct facilitator does.
    Good,
    /// The settlement is pending, with or without a transaction hash.
    Pending(bool),
    /// The payment was settled before, and its success is returned again.
    Repeated,
    /// Another caller received the success, as our facilitator reports it to a request with an idempotency key.
    Elsewhere,
    /// Rejected for this reason.
    Refuses(&'static str),
    /// This text with this status.
    Text(u16, String),
    /// Never responds.
    Nothing,
    /// Waits for the gate, then responds as a correct one.
    Late,
    /// Settles, but responds with status 502.
    Mute,
}

#[derive(Debug)]
struct Shared {
    verify: Mutex<Says>,
    settle: Mutex<Says>,
    verified: AtomicUsize,
    /// Nonces of the settled payments, each once.
    moved: Mutex<Vec<Value>>,
    asked: AtomicUsize,
    /// Endpoint and `Idempotency-Key` of each request, in order.
    keys: Mutex<Vec<(&'static str, Option<String>)>>,
    gate: Semaphore,
}

/// A scripted facilitator. It stops when dropped.
#[derive(Debug)]
pub struct Settling {
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Settling {
    /// Starts a facilitator on Base that responds as a correct one does.
    pub async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            verify: Mutex::new(Says::Good),
            settle: Mutex::new(Says::Good),
            verified: AtomicUsize::new(0),
            moved: Mutex::default(),
            asked: AtomicUsize::new(0),
            keys: Mutex::default(),
            gate: Semaphore::new(0),
        });
        let app = Router::new()
            .route("/verify", post(verify))
            .route("/settle", post(settle))
            .route("/supported", get(supported))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move {
            let _ended = axum::serve(listener, app).await;
        });
        Self { url, shared, server }
    }

    /// Changes how `/verify` responds from now on.
    pub fn verify_says(&self, says: Says) {
        *self.shared.verify.lock().expect("held for a moment") = says;
    }

    /// Changes how `/settle` responds from now on.
    pub fn settle_says(&self, says: Says) {
        *self.shared.settle.lock().expect("held for a moment") = says;
    }

    /// Returns the number of `/verify` requests.
    pub fn verified(&self) -> usize {
        self.shared.verified.load(Ordering::SeqCst)
    }

    /// Returns the number of `/settle` requests.
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Returns the endpoint and `Idempotency-Key` of each request, in order.
    pub fn keys(&self) -> Vec<(&'static str, Option<String>)> {
        self.shared.keys.lock().expect("held for a moment").clone()
    }

    /// Returns the number of settled payments, each counted once.
    pub fn moved(&self) -> usize {
        self.shared.moved.lock().expect("held for a moment").len()
    }

    /// Lets this many [`Says::Late`] responses go out.
    pub fn open(&self, turns: usize) {
        self.shared.gate.add_permits(turns);
    }
}

async fn supported() -> Response {
    let kind = |version: u64, network: &str| json!({ "x402Version": version, "scheme": "exact", "network": network });
    let kinds = json!([kind(1, "base"), kind(2, "eip155:8453")]);
    told(&json!({ "kinds": kinds, "extensions": [], "signers": {} }))
}

fn payer(question: &Value) -> Value {
    question["paymentPayload"]["payload"]["authorization"]["from"].clone()
}

impl Shared {
    fn keep_key(&self, asked: &'static str, headers: &HeaderMap) {
        let mut all = headers.get_all("idempotency-key").iter();
        let key = all.next().map(|key| key.to_str().expect("text").to_owned());
        assert!(all.next().is_none(), "one key");
        self.keys.lock().expect("held for a moment").push((asked, key));
    }
}

async fn verify(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    shared.keep_key("verify", &headers);
    shared.verified.fetch_add(1, Ordering::SeqCst);
    let question: Value = serde_json::from_slice(&body).expect("JSON");
    let says = shared.verify.lock().expect("held for a moment").clone();
    match says {
        Says::Text(status, text) => said(status, text),
        Says::Nothing => std::future::pending().await,
        Says::Refuses(reason) => told(&json!({
            "isValid": false, "invalidReason": reason, "invalidMessage": "so it is",
        })),
        Says::Late => {
            shared.gate.acquire().await.expect("open").forget();
            told(&json!({ "isValid": true, "payer": payer(&question) }))
        }
        Says::Good | Says::Pending(_) | Says::Mute | Says::Repeated | Says::Elsewhere => {
            told(&json!({ "isValid": true, "payer": payer(&question) }))
        }
    }
}

async fn settle(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    shared.keep_key("settle", &headers);
    shared.asked.fetch_add(1, Ordering::SeqCst);
    let question: Value = serde_json::from_slice(&body).expect("JSON");
    let network = question["paymentRequirements"]["network"].clone();
    let hash = format!("0x{}", "ab".repeat(32));
    let says = shared.settle.lock().expect("held for a moment").clone();
    let move_it = || {
        let nonce = question["paymentPayload"]["payload"]["authorization"]["nonce"].clone();
        let mut moved = shared.moved.lock().expect("held for a moment");
        if !moved.contains(&nonce) {
            moved.push(nonce);
        }
    };
    let good = json!({
        "success": true, "transaction": hash, "network": network, "payer": payer(&question),
    });
    match says {
        Says::Good => {
            move_it();
            told(&good)
        }
        Says::Repeated => {
            let mut response = told(&good);
            let repeated = "true".parse().expect("a value");
            response.headers_mut().insert("x-settlement-repeated", repeated);
            response
        }
        Says::Late => {
            shared.gate.acquire().await.expect("open").forget();
            move_it();
            told(&good)
        }
        Says::Mute => {
            move_it();
            said(502, "<html>bad gateway</html>".to_owned())
        }
        Says::Pending(sent) => told(&json!({
            "success": false, "errorReason": "settlement_pending", "network": network,
            "transaction": if sent { hash.as_str() } else { "" },
        })),
        Says::Elsewhere => told(&json!({
            "success": false, "errorReason": "duplicate_settlement", "transaction": "",
            "network": network, "errorMessage": format!("it was settled by {hash}"),
            "extra": { "transaction": hash },
        })),
        Says::Refuses(reason) => told(&json!({
            "success": false, "errorReason": reason, "transaction": "", "network": network,
        })),
        Says::Text(status, text) => said(status, text),
        Says::Nothing => std::future::pending().await,
    }
}

fn said(status: u16, text: String) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn told(value: &Value) -> Response {
    said(200, value.to_string())
}
