//! The example agents, in Python and in Node, against a stand-in for the wallet that checks what they send
//! and signs with a throw-away key.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::payer::{Payer, now_s, unpack};
use alloy_primitives::Address;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_demo::merchant::{Merchant, MerchantConfig};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::process::Command;

const AGENTS: [(&str, &str); 2] = [("python3", "agent.py"), ("node", "agent.mjs")];
const AGENT: &str = "ABC123";
const TOKEN: &str = "AT_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const SHOP: Address = Address::repeat_byte(0x55);

/// How the operator behind the stand-in decides.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operator {
    Automatic,
    ApprovesAtTheThirdPoll,
    Rejects,
    Sleeps,
    Refuses,
}

struct Wallet {
    operator: Operator,
    mode: &'static str,
    polls: AtomicUsize,
    asks: AtomicUsize,
    challenge: std::sync::Mutex<String>,
}

async fn wallet(State(wallet): State<Arc<Wallet>>, request: Request) -> (StatusCode, String) {
    let path = request.uri().path().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 100_000).await.unwrap();
    let (code, answer) = if path == "/sign" {
        let body: BTreeMap<String, Value> = serde_json::from_slice(&body).unwrap();
        check_proof(wallet.mode, &body);
        *wallet.challenge.lock().unwrap() = body["payment_required"].as_str().unwrap().to_owned();
        wallet.asks.fetch_add(1, Ordering::Relaxed);
        wallet.asked()
    } else {
        assert_eq!(path, "/sign/status/7f3c");
        let poll = wallet.polls.fetch_add(1, Ordering::Relaxed) + 1;
        wallet.polled(poll)
    };
    (StatusCode::from_u16(code).unwrap(), answer.to_string())
}

impl Wallet {
    fn asked(&self) -> (u16, Value) {
        match self.operator {
            Operator::Automatic => (200, self.signed()),
            Operator::Refuses => {
                let error = "Exceeds per-request maximum";
                let code = "EXCEEDS_PER_REQUEST_MAX";
                (403, json!({ "status": "error", "error": error, "code": code }))
            }
            _ => (202, json!({ "status": "pending", "request_id": "7f3c" })),
        }
    }

    fn polled(&self, poll: usize) -> (u16, Value) {
        match (self.operator, poll) {
            (Operator::Sleeps, _) | (_, 1) => (202, json!({ "status": "pending" })),
            (_, 2) => (202, json!({ "status": "executing", "request_id": "7f3c" })),
            (Operator::Rejects, _) => (
                200,
                json!({ "status": "rejected", "reason": "User rejected", "transaction_id": "t" }),
            ),
            _ => (200, self.signed()),
        }
    }

    fn signed(&self) -> Value {
        let offer = unpack(&self.challenge.lock().unwrap())["accepts"][0].clone();
        let price = offer["amount"].as_str().unwrap().parse().unwrap();
        let payer = Payer::new(0x31);
        let nonce = u8::try_from(self.asks.load(Ordering::Relaxed)).unwrap();
        let header = payer.header(network(), &offer, &payer.terms(SHOP, price, nonce));
        json!({
            "status": "success", "x402_version": 2, "transaction_id": "t",
            "header_name": "PAYMENT-SIGNATURE", "header_value": header,
        })
    }
}

fn network() -> &'static Network {
    by_chain(ChainId(8453)).unwrap()
}

/// The token itself, or an HMAC over the canonical message, which is written out here by hand.
fn check_proof(mode: &str, body: &BTreeMap<String, Value>) {
    let proof = body["signature"].as_str().unwrap();
    assert_eq!(body["agent_id"], AGENT);
    if mode == "bearer" {
        return assert_eq!(proof, TOKEN);
    }
    let [kind, timestamp, digest] = proof.split(':').collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!(kind, "SIG");
    assert!(timestamp.parse::<u64>().unwrap().abs_diff(now_s()) < 30);
    let message = format!(
        r#"{{"agent_id":"{AGENT}","payment_required":{},"request_url":{},"timestamp":{timestamp}}}"#,
        body["payment_required"],
        body["request_url"].to_string().replace('é', "\\u00e9"),
    );
    let key = hex::decode(TOKEN.trim_start_matches("AT_")).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(message.as_bytes());
    assert_eq!(digest, hex::encode(mac.finalize().into_bytes()));
}

/// Opens a shop and a wallet, runs every agent, and returns what each printed and its exit code.
async fn run(operator: Operator, mode: &'static str, path: &str) -> Vec<(i32, Value)> {
    let config = MerchantConfig::new(network().chain, SHOP).sell("/small", 10_000);
    let merchant = Merchant::serve(config).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut results = Vec::new();
    let state = Arc::new(Wallet {
        operator,
        mode,
        polls: AtomicUsize::new(0),
        asks: AtomicUsize::new(0),
        challenge: std::sync::Mutex::default(),
    });
    let router = Router::new().fallback(wallet).with_state(Arc::clone(&state));
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let patience = if operator == Operator::Sleeps { "0.1" } else { "30" };
    for (program, script) in AGENTS {
        state.polls.store(0, Ordering::Relaxed);
        let done = Command::new(program)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("agents").join(script))
            .args(["--poll", "0.01", "--timeout", patience])
            .arg(format!("{}{path}", merchant.url()))
            .env("WALLET_URL", &url)
            .env("WALLET_AGENT_ID", AGENT)
            .env("WALLET_AGENT_TOKEN", TOKEN)
            .env("WALLET_AUTH_MODE", mode)
            // Would be asked for everything if the agents heeded it.
            .env("http_proxy", "http://127.0.0.1:9")
            .stderr(Stdio::inherit())
            .output()
            .await
            .unwrap_or_else(|error| {
                panic!("{program}: {error}; apt-get install -y nodejs python3")
            });
        let printed = String::from_utf8(done.stdout).unwrap();
        assert_eq!(printed.lines().count(), 1, "{script}: {printed}");
        results.push((done.status.code().unwrap(), serde_json::from_str(&printed).unwrap()));
    }
    server.abort();
    results
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_pay_with_either_proof_and_after_an_approval() {
    let cases = [
        (Operator::Automatic, "hmac"),
        (Operator::Automatic, "bearer"),
        (Operator::ApprovesAtTheThirdPoll, "hmac"),
    ];
    for (operator, mode) in cases {
        // A query with a letter beyond ASCII: signed in its escaped form.
        for (exit, told) in run(operator, mode, "/small?q=é&n=1").await {
            assert_eq!((exit, &told["outcome"]), (0, &json!("paid")), "{told}");
            assert_eq!((&told["http"], &told["transaction_id"]), (&json!(200), &json!("t")));
            assert_eq!(told["payment_response"]["success"], true);
            assert_eq!(told["body"]["paid"], "10000");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_tell_why_nothing_was_paid() {
    let cases = [
        (Operator::Rejects, "/small", "rejected", 200, json!(null), json!("User rejected")),
        (Operator::Sleeps, "/small", "timeout", 202, json!(null), json!("nobody approved in time")),
        (
            Operator::Refuses,
            "/small",
            "refused",
            403,
            json!("EXCEEDS_PER_REQUEST_MAX"),
            json!("Exceeds per-request maximum"),
        ),
        (Operator::Refuses, "/nothing", "unavailable", 404, json!(null), json!(null)),
    ];
    for (operator, path, outcome, http, code, reason) in cases {
        for (exit, told) in run(operator, "hmac", path).await {
            let found = (exit, &told["outcome"], &told["http"], &told["code"], &told["reason"]);
            assert_eq!(found, (3, &json!(outcome), &json!(http), &code, &reason));
        }
    }
}
