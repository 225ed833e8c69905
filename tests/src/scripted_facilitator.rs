//! A scripted facilitator that can respond in ways in which a correct facilitator never does.
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
pub enum FacilitatorReply {
    /// Responds as a correct facilitator.
    Good,
    /// The settlement is pending, with or without a transaction hash.
    Pending(bool),
    /// The payment was settled before, and the same success is returned again.
    Repeated,
    /// The settlement is a duplicate, because another caller received the success.
    ///
    /// Our facilitator responds like this to a request with an idempotency key.
    DuplicateSettlement,
    /// Rejects the payment for this reason.
    Refuses(&'static str),
    /// Responds with this status and this text.
    Text(u16, String),
    /// Never responds.
    Nothing,
    /// Waits for the gate, then responds as a correct facilitator.
    Late,
    /// Settles, but responds with status 502.
    SettlesThenFails,
}

#[derive(Debug)]
struct FacilitatorState {
    verify: Mutex<FacilitatorReply>,
    settle: Mutex<FacilitatorReply>,
    verify_calls: AtomicUsize,
    /// Nonces of the settled payments, each once.
    settled: Mutex<Vec<Value>>,
    settle_calls: AtomicUsize,
    /// The endpoint and `Idempotency-Key` of each request, in order.
    request_keys: Mutex<Vec<(&'static str, Option<String>)>>,
    gate: Semaphore,
}

/// A scripted facilitator. It stops when dropped.
#[derive(Debug)]
pub struct ScriptedFacilitator {
    pub url: String,
    shared: Arc<FacilitatorState>,
    server: JoinHandle<()>,
}

impl Drop for ScriptedFacilitator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl ScriptedFacilitator {
    /// Starts a facilitator on Base that responds as a correct facilitator.
    pub async fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(FacilitatorState {
            verify: Mutex::new(FacilitatorReply::Good),
            settle: Mutex::new(FacilitatorReply::Good),
            verify_calls: AtomicUsize::new(0),
            settled: Mutex::default(),
            settle_calls: AtomicUsize::new(0),
            request_keys: Mutex::default(),
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
    pub fn set_verify_reply(&self, reply: FacilitatorReply) {
        *self.shared.verify.lock().expect("held for a moment") = reply;
    }

    /// Changes how `/settle` responds from now on.
    pub fn set_settle_reply(&self, reply: FacilitatorReply) {
        *self.shared.settle.lock().expect("held for a moment") = reply;
    }

    /// Returns the number of `/verify` requests.
    pub fn verify_calls(&self) -> usize {
        self.shared.verify_calls.load(Ordering::SeqCst)
    }

    /// Returns the number of `/settle` requests.
    pub fn settle_calls(&self) -> usize {
        self.shared.settle_calls.load(Ordering::SeqCst)
    }

    /// Returns the endpoint and `Idempotency-Key` of each request, in order.
    pub fn idempotency_keys(&self) -> Vec<(&'static str, Option<String>)> {
        self.shared.request_keys.lock().expect("held for a moment").clone()
    }

    /// Returns the number of settled payments, each counted once.
    pub fn settled(&self) -> usize {
        self.shared.settled.lock().expect("held for a moment").len()
    }

    /// Lets this many [`FacilitatorReply::Late`] responses go out.
    pub fn open_gate(&self, permits: usize) {
        self.shared.gate.add_permits(permits);
    }
}

async fn supported() -> Response {
    let kind = |version: u64, network: &str| json!({ "x402Version": version, "scheme": "exact", "network": network });
    let kinds = json!([kind(1, "base"), kind(2, "eip155:8453")]);
    json_response(&json!({ "kinds": kinds, "extensions": [], "signers": {} }))
}

fn payer(request: &Value) -> Value {
    request["paymentPayload"]["payload"]["authorization"]["from"].clone()
}

impl FacilitatorState {
    fn record_key(&self, endpoint: &'static str, headers: &HeaderMap) {
        let mut all = headers.get_all("idempotency-key").iter();
        let key = all.next().map(|key| key.to_str().expect("text").to_owned());
        assert!(all.next().is_none(), "one key");
        self.request_keys.lock().expect("held for a moment").push((endpoint, key));
    }
}

async fn verify(
    State(shared): State<Arc<FacilitatorState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.record_key("verify", &headers);
    shared.verify_calls.fetch_add(1, Ordering::SeqCst);
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    let reply = shared.verify.lock().expect("held for a moment").clone();
    match reply {
        FacilitatorReply::Text(status, text) => text_response(status, text),
        FacilitatorReply::Nothing => std::future::pending().await,
        FacilitatorReply::Refuses(reason) => json_response(&json!({
            "isValid": false, "invalidReason": reason, "invalidMessage": "so it is",
        })),
        FacilitatorReply::Late => {
            shared.gate.acquire().await.expect("open").forget();
            json_response(&json!({ "isValid": true, "payer": payer(&request) }))
        }
        FacilitatorReply::Good
        | FacilitatorReply::Pending(_)
        | FacilitatorReply::SettlesThenFails
        | FacilitatorReply::Repeated
        | FacilitatorReply::DuplicateSettlement => {
            json_response(&json!({ "isValid": true, "payer": payer(&request) }))
        }
    }
}

async fn settle(
    State(shared): State<Arc<FacilitatorState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    shared.record_key("settle", &headers);
    shared.settle_calls.fetch_add(1, Ordering::SeqCst);
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    let network = request["paymentRequirements"]["network"].clone();
    let hash = format!("0x{}", "ab".repeat(32));
    let reply = shared.settle.lock().expect("held for a moment").clone();
    let settle_once = || {
        let nonce = request["paymentPayload"]["payload"]["authorization"]["nonce"].clone();
        let mut settled = shared.settled.lock().expect("held for a moment");
        if !settled.contains(&nonce) {
            settled.push(nonce);
        }
    };
    let good = json!({
        "success": true, "transaction": hash, "network": network, "payer": payer(&request),
    });
    match reply {
        FacilitatorReply::Good => {
            settle_once();
            json_response(&good)
        }
        FacilitatorReply::Repeated => {
            let mut response = json_response(&good);
            let repeated = "true".parse().expect("a value");
            response.headers_mut().insert("x-settlement-repeated", repeated);
            response
        }
        FacilitatorReply::Late => {
            shared.gate.acquire().await.expect("open").forget();
            settle_once();
            json_response(&good)
        }
        FacilitatorReply::SettlesThenFails => {
            settle_once();
            text_response(502, "<html>bad gateway</html>".to_owned())
        }
        FacilitatorReply::Pending(sent) => json_response(&json!({
            "success": false, "errorReason": "settlement_pending", "network": network,
            "transaction": if sent { hash.as_str() } else { "" },
        })),
        FacilitatorReply::DuplicateSettlement => json_response(&json!({
            "success": false, "errorReason": "duplicate_settlement", "transaction": "",
            "network": network, "errorMessage": format!("it was settled by {hash}"),
            "extra": { "transaction": hash },
        })),
        FacilitatorReply::Refuses(reason) => json_response(&json!({
            "success": false, "errorReason": reason, "transaction": "", "network": network,
        })),
        FacilitatorReply::Text(status, text) => text_response(status, text),
        FacilitatorReply::Nothing => std::future::pending().await,
    }
}

fn text_response(status: u16, text: String) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn json_response(value: &Value) -> Response {
    text_response(200, value.to_string())
}
