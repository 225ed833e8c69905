//! A proxy between an upstream and a facilitator, both of which answer at once.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::{get, post as route};
use bursar_tests::proxy::{Customer, PaymentRequired, ProxyHome};
use bursar_tests::scripted_facilitator::ScriptedFacilitator;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::http::post;
use crate::process::Process;

/// Returns a typical chat request of about a thousand bytes.
pub fn body(stream: bool) -> Value {
    let text = "Tell me, in a few words, what the weather will be like. ".repeat(16);
    if stream {
        bursar_tests::proxy::streaming_chat(&text)
    } else {
        bursar_tests::proxy::chat(&text)
    }
}

pub struct Stage {
    pub facilitator: ScriptedFacilitator,
    pub process: Process,
    pub customer: Customer,
    _home: ProxyHome,
}

impl Stage {
    pub async fn in_front_of(upstream: &str) -> Self {
        let facilitator = ScriptedFacilitator::serve().await;
        let home = ProxyHome::new(upstream, &facilitator.url, "in_flight = 4096");
        let program = Path::new(env!("CARGO_BIN_EXE_bursar-test-proxy"));
        let process = Process::start(program, &home.settings());
        let url = format!("http://{}", process.address);
        let customer = Customer::of(&url, bursar_tests::payer::Payer::random());
        Self { facilitator, process, customer, _home: home }
    }

    /// Returns requests with payments, each signed before the measurement.
    pub async fn paid_requests(&self, body: &Value, count: usize) -> Vec<Vec<u8>> {
        let challenge: PaymentRequired = self.customer.ask(body).await;
        let plain = post("/v1/chat/completions", &body.to_string());
        let plain = String::from_utf8(plain).expect("text");
        let one = || {
            let header = self.customer.sign_with(2, &challenge, |_due| {});
            let line = format!("{}: {}\r\ncontent-length", header.name, header.value);
            plain.replacen("content-length", &line, 1).into_bytes()
        };
        (0..count).map(|_n| one()).collect()
    }
}

/// Starts a server that gives every request the same answer, as fast as it can.
pub async fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answer: Arc<str> = bursar_tests::upstream::answer("It will rain.").to_string().into();
    let chat = move |_body: Bytes| {
        let answer = Bytes::copy_from_slice(answer.as_bytes());
        async move { ([(header::CONTENT_TYPE, "application/json")], answer) }
    };
    let app = Router::new()
        .route("/v1/chat/completions", route(chat))
        .route("/v1/models", get(|| async { "{}" }));
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
