//! A reverse proxy between merchants and the facilitator. It records each answer, checks each hash in it on the chain
//! at once, and can hold `/settle` requests back.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bursar_devnet::Devnet;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::merchants::market::wait_within_deadline;

/// One answer of the facilitator.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) path: String,
    pub(crate) status: u16,
    /// The nonce of the payment in the request.
    pub(crate) nonce: String,
    pub(crate) body: Value,
    /// Hashes in the answer that the node did not know when the answer arrived.
    pub(crate) unknown_hashes: Vec<String>,
}

/// Stops the server on drop.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) url: String,
    shared: Arc<RecorderState>,
    server: JoinHandle<()>,
}

#[derive(Debug)]
struct RecorderState {
    facilitator: String,
    chain: Devnet,
    client: reqwest::Client,
    answers: Mutex<Vec<Answer>>,
    /// Whether `/settle` requests are held back.
    hold_settles: watch::Sender<bool>,
    /// The number of requests held back now.
    held_settles: watch::Sender<usize>,
}

impl Recorder {
    pub(crate) async fn in_front_of(facilitator: &str, chain: &Devnet) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let shared = Arc::new(RecorderState {
            facilitator: facilitator.to_owned(),
            chain: chain.clone(),
            client,
            answers: Mutex::default(),
            hold_settles: watch::Sender::new(false),
            held_settles: watch::Sender::new(0),
        });
        let router = Router::new().fallback(forward).with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async move { axum::serve(listener, router).await.expect("served") };
        Self { url, shared, server: tokio::spawn(serve) }
    }

    pub(crate) fn answers(&self) -> Vec<Answer> {
        self.shared.answers.lock().expect("not poisoned").clone()
    }

    /// Returns the bodies of all `/settle` answers for the payment with this nonce.
    pub(crate) fn settlements(&self, nonce: &str) -> Vec<Value> {
        let answers = self.answers().into_iter();
        let of_payment = answers.filter(|one| one.path == "/settle" && one.nonce == nonce);
        of_payment.map(|one| one.body).collect()
    }

    /// Holds `/settle` requests back until [`Recorder::release_settles`].
    pub(crate) fn hold_settles(&self) {
        self.shared.hold_settles.send_replace(true);
    }

    /// Waits until this many `/settle` requests are held back.
    pub(crate) async fn wait_until_held(&self, count: usize) {
        let mut held = self.shared.held_settles.subscribe();
        let reached = held.wait_for(|now| *now == count);
        wait_within_deadline("settle requests at the recorder", reached).await.expect("it runs");
    }

    pub(crate) fn release_settles(&self) {
        self.shared.hold_settles.send_replace(false);
    }

    /// Asserts that each answer had status 200 and that the node knew each hash in it.
    pub(crate) fn assert_truthful(&self) {
        let answers = self.answers();
        assert!(answers.iter().any(|answer| answer.path == "/settle" || answer.path == "/verify"));
        for answer in answers {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(answer.unknown_hashes.is_empty(), "{answer:?}");
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Headers that describe one connection or the length of one body.
const HOP_BY_HOP: [HeaderName; 4] =
    [header::HOST, header::CONTENT_LENGTH, header::CONNECTION, header::TRANSFER_ENCODING];

fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in HOP_BY_HOP {
        kept.remove(name);
    }
    kept
}

async fn forward(
    State(shared): State<Arc<RecorderState>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if uri.path() == "/settle" {
        shared.wait_while_held().await;
    }
    let url = format!("{}{uri}", shared.facilitator);
    let asked = shared.client.request(method, url).headers(end_to_end_headers(&headers));
    let Ok(answer) = asked.body(body.clone()).send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, headers) = (answer.status(), end_to_end_headers(answer.headers()));
    let Ok(text) = answer.bytes().await else { return StatusCode::BAD_GATEWAY.into_response() };
    shared.record(uri.path(), status.as_u16(), &body, &text).await;
    (status, headers, text).into_response()
}

impl RecorderState {
    async fn wait_while_held(&self) {
        let mut hold = self.hold_settles.subscribe();
        if *hold.borrow() {
            self.held_settles.send_modify(|held| *held += 1);
            hold.wait_for(|on| !*on).await.expect("the sender lives in this value");
            self.held_settles.send_modify(|held| *held -= 1);
        }
    }

    async fn record(&self, path: &str, status: u16, request: &[u8], answer: &[u8]) {
        let body: Value = serde_json::from_slice(answer).unwrap_or_default();
        let mut unknown_hashes = Vec::new();
        for hash in [&body["transaction"], &body["extra"]["transaction"]] {
            let Some(hash) = hash.as_str().filter(|text| !text.is_empty()) else { continue };
            let known = self.chain.request("eth_getTransactionByHash", json!([hash])).await;
            if known.expect("the chain answers").is_null() {
                unknown_hashes.push(hash.to_owned());
            }
        }
        let request: Value = serde_json::from_slice(request).unwrap_or_default();
        let nonce = &request["paymentPayload"]["payload"]["authorization"]["nonce"];
        let nonce = nonce.as_str().unwrap_or_default().to_owned();
        let answer = Answer { path: path.to_owned(), status, nonce, body, unknown_hashes };
        self.answers.lock().expect("not poisoned").push(answer);
    }
}
