//! The example agents in Python and Node, against a stand-in for the wallet that checks their requests and
//! signs with a throw-away key.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::payer::{Payer, now_s, unpack};
use alloy_primitives::Address;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use bursar_core::networks::{ChainId, Network, by_chain};
use bursar_devnet::merchant::{Merchant, MerchantConfig, Version};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::process::Command;

const AGENTS: [(&str, &str); 2] = [("python3", "agent.py"), ("node", "agent.mjs")];
const AGENT: &str = "ABC123";
const TOKEN: &str = "AT_000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const SHOP: Address = Address::repeat_byte(0x55);

/// The idempotency keys used in all runs.
static KEYS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The decision of the operator behind the stand-in.
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
    sign_requests: AtomicUsize,
    challenge: Mutex<Value>,
    /// The timestamp of the latest HMAC, in seconds.
    latest_hmac_second: AtomicU64,
}

async fn wallet(State(wallet): State<Arc<Wallet>>, request: Request) -> (StatusCode, String) {
    let path = request.uri().path().to_owned();
    let body = axum::body::to_bytes(request.into_body(), 100_000).await.unwrap();
    let (code, answer) = if path == "/sign" {
        let body: BTreeMap<String, Value> = serde_json::from_slice(&body).unwrap();
        wallet.check_proof(&body);
        let header = body.get("payment_required").map(|header| unpack(header.as_str().unwrap()));
        let data = body.get("x402_data").cloned();
        assert!(header.is_none() || data.is_none(), "one form of the offer");
        *wallet.challenge.lock().unwrap() = header.or(data).unwrap();
        wallet.sign_requests.fetch_add(1, Ordering::Relaxed);
        wallet.sign_answer()
    } else {
        assert_eq!(path, "/sign/status/7f3c");
        let poll = wallet.polls.fetch_add(1, Ordering::Relaxed) + 1;
        wallet.poll_answer(poll)
    };
    (StatusCode::from_u16(code).unwrap(), answer.to_string())
}

impl Wallet {
    fn sign_answer(&self) -> (u16, Value) {
        match self.operator {
            Operator::Automatic => (200, self.signed_answer()),
            Operator::Refuses => {
                let error = "Exceeds per-request maximum";
                let code = "EXCEEDS_PER_REQUEST_MAX";
                (403, json!({ "status": "error", "error": error, "code": code }))
            }
            _ => (202, json!({ "status": "pending", "request_id": "7f3c" })),
        }
    }

    fn poll_answer(&self, poll: usize) -> (u16, Value) {
        match (self.operator, poll) {
            (Operator::Sleeps, _) | (_, 1) => (202, json!({ "status": "pending" })),
            (_, 2) => (202, json!({ "status": "executing", "request_id": "7f3c" })),
            (Operator::Rejects, _) => (
                200,
                json!({ "status": "rejected", "reason": "User rejected", "transaction_id": "t" }),
            ),
            _ => (200, self.signed_answer()),
        }
    }

    fn signed_answer(&self) -> Value {
        let challenge = self.challenge.lock().unwrap().clone();
        let (version, offer) =
            (challenge["x402Version"].as_u64().unwrap(), &challenge["accepts"][0]);
        let (name, amount) = match version {
            1 => ("X-PAYMENT", &offer["maxAmountRequired"]),
            _ => ("PAYMENT-SIGNATURE", &offer["amount"]),
        };
        let price = amount.as_str().unwrap().parse().unwrap();
        let payer = Payer::new(0x31);
        let nonce = u8::try_from(self.sign_requests.load(Ordering::Relaxed)).unwrap();
        let terms = payer.terms(SHOP, price, nonce);
        let header = match version {
            1 => payer.header_v1(network(), &offer["network"], &terms),
            _ => payer.header(network(), offer, &terms),
        };
        json!({
            "status": "success", "x402_version": version, "transaction_id": "t",
            "header_name": name, "header_value": header,
        })
    }

    /// Checks the bearer token with a fresh idempotency key, or the HMAC over the canonical message, which this
    /// function writes out by hand.
    fn check_proof(&self, body: &BTreeMap<String, Value>) {
        let proof = body["signature"].as_str().unwrap();
        assert_eq!(body["agent_id"], AGENT);
        let key = body.get("idempotency_key").map(|key| key.as_str().unwrap().to_owned());
        if self.mode == "bearer" {
            assert!(KEYS.lock().unwrap().insert(key.unwrap()), "a key of another purchase");
            return assert_eq!(proof, TOKEN);
        }
        assert_eq!(key, None);
        let [kind, timestamp, digest] = proof.split(':').collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!(kind, "SIG");
        self.latest_hmac_second.store(timestamp.parse().unwrap(), Ordering::Relaxed);
        assert!(timestamp.parse::<u64>().unwrap().abs_diff(now_s()) < 30);
        let url = body["request_url"].to_string().replace('é', "\\u00e9");
        let message = match body.get("x402_data") {
            // `serde_json` writes this map with sorted keys.
            Some(data) => format!(
                r#"{{"agent_id":"{AGENT}","request_url":{url},"timestamp":{timestamp},"x402_data":{data}}}"#
            ),
            None => format!(
                r#"{{"agent_id":"{AGENT}","payment_required":{},"request_url":{url},"timestamp":{timestamp}}}"#,
                body["payment_required"],
            ),
        };
        let key = hex::decode(TOKEN.trim_start_matches("AT_")).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(message.as_bytes());
        assert_eq!(digest, hex::encode(mac.finalize().into_bytes()));
    }
}

fn network() -> &'static Network {
    by_chain(ChainId(8453)).unwrap()
}

/// Starts a shop and a wallet, runs every agent, and returns each exit code and output.
async fn run(operator: Operator, mode: &'static str, path: &str) -> Vec<(i32, Value)> {
    let goods = MerchantConfig::new(network().chain, SHOP);
    let config = goods.sell("/small", 10_000).sell_in(Version::V1, "/old/small", 10_000);
    let merchant = Merchant::serve(config).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let mut results = Vec::new();
    let state = Arc::new(Wallet {
        operator,
        mode,
        polls: AtomicUsize::new(0),
        sign_requests: AtomicUsize::new(0),
        challenge: Mutex::default(),
        latest_hmac_second: AtomicU64::new(0),
    });
    let router = Router::new().fallback(wallet).with_state(Arc::clone(&state));
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let patience = if operator == Operator::Sleeps { "0.1" } else { "30" };
    for (program, script) in AGENTS {
        state.polls.store(0, Ordering::Relaxed);
        let done = Command::new(program)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents").join(script))
            .args(["--poll", "0.01", "--timeout", patience])
            .arg(format!("{}{path}", merchant.url()))
            .env("WALLET_URL", &url)
            .env("WALLET_AGENT_ID", AGENT)
            .env("WALLET_AGENT_TOKEN", TOKEN)
            .env("WALLET_AUTH_MODE", mode)
            // This proxy does not answer, so an agent that used it would fail.
            .env("http_proxy", "http://127.0.0.1:9")
            // The address is UTF-8, also in a locale with another encoding.
            .env("PYTHONUTF8", "1")
            .stderr(Stdio::inherit())
            .output()
            .await
            .unwrap_or_else(|error| {
                panic!("{program}: {error}; apt-get install -y nodejs python3")
            });
        // Every run is a separate purchase: a second process must not repeat the proof of the first.
        assert!(
            now_s() > state.latest_hmac_second.load(Ordering::Relaxed),
            "{script} ended too early"
        );
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
    // The query has a non-ASCII letter, which is signed in escaped form.
    let paths = ["/small?q=é&n=1", "/old/small?q=é&n=1"];
    for ((operator, mode), path) in cases.iter().flat_map(|case| paths.map(|path| (*case, path))) {
        for (exit, reported) in run(operator, mode, path).await {
            assert_eq!((exit, &reported["outcome"]), (0, &json!("paid")), "{reported}");
            assert_eq!(
                (&reported["http"], &reported["transaction_id"]),
                (&json!(200), &json!("t"))
            );
            assert_eq!(reported["payment_response"]["success"], true);
            assert_eq!(reported["body"]["paid"], "10000");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_report_why_nothing_was_paid() {
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
        for (exit, reported) in run(operator, "hmac", path).await {
            let found = (
                exit,
                &reported["outcome"],
                &reported["http"],
                &reported["code"],
                &reported["reason"],
            );
            assert_eq!(found, (3, &json!(outcome), &json!(http), &code, &reason));
        }
    }
}
