//! A scripted node on 127.0.0.1 and helpers that the RPC tests share.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::Address;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::rpc::{RpcChain, RpcConfig, RpcLimits};
use bursar_core::networks::{ChainId, by_id_or_v1_name};
use bursar_core::time::Utc;
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// The key in every URL, where providers put their keys; it must appear nowhere else.
pub(crate) const SECRET: &str = "SECRETSECRET";

pub(crate) const COOL_DOWN_MS: u64 = 5_000;
pub(crate) const RETRY_MS: u64 = 60_000;
pub(crate) const ACCOUNT: Address = Address::repeat_byte(0x11);

pub(crate) fn ours() -> ChainId {
    by_id_or_v1_name("base").unwrap().chain
}

pub(crate) fn foreign() -> ChainId {
    by_id_or_v1_name("base-sepolia").unwrap().chain
}

#[derive(Clone)]
pub(crate) enum Answer {
    Result(Value),
    Error(Value),
    /// A status and a body, with `$ID` replaced by the request's id.
    Text(u16, String),
    Redirect(String),
    /// Answers with the first parameter of the request.
    Echo,
    /// Only for batches: refuses batches with more requests than this, as geth does.
    AtMost(usize),
    /// Accepts the request and never answers.
    Silence,
}

#[derive(Clone, Default)]
struct Script(Arc<Mutex<BTreeMap<String, Answer>>>);

impl Respond for Script {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let question: Value = request.body_json().unwrap();
        if let Value::Array(several) = &question {
            return self.batch(several);
        }
        let id = question["id"].clone();
        let method = question["method"].as_str().unwrap();
        let script = self.0.lock().unwrap();
        let answer = script.get(method).or_else(|| script.get("*")).cloned();
        let ok = |body: Value| ResponseTemplate::new(200).set_body_json(body);
        match answer.unwrap_or_else(|| Answer::Error(json!({"code": -32601, "message": "unknown"})))
        {
            Answer::Result(result) => ok(json!({"jsonrpc": "2.0", "id": id, "result": result})),
            Answer::Error(error) => ok(json!({"jsonrpc": "2.0", "id": id, "error": error})),
            Answer::Text(status, text) => {
                ResponseTemplate::new(status).set_body_string(text.replace("$ID", &id.to_string()))
            }
            Answer::Echo => {
                ok(json!({"jsonrpc": "2.0", "id": id, "result": question["params"][0]}))
            }
            Answer::AtMost(_) => panic!("a request alone"),
            Answer::Redirect(to) => ResponseTemplate::new(307).insert_header("location", to),
            Answer::Silence => ok(json!({})).set_delay(Duration::from_secs(3600)),
        }
    }
}

impl Script {
    /// Answers a batch in reverse order, as nodes may.
    fn batch(&self, questions: &[Value]) -> ResponseTemplate {
        let script = self.0.lock().unwrap();
        if let Some(Answer::Text(status, text)) = script.get("batch") {
            return ResponseTemplate::new(*status).set_body_string(text.clone());
        }
        if let Some(Answer::AtMost(most)) = script.get("batch")
            && questions.len() > *most
        {
            let error = json!({"code": -32600, "message": "batch too large"});
            let only = json!([{"jsonrpc": "2.0", "id": questions[0]["id"], "error": error}]);
            return ResponseTemplate::new(200).set_body_json(only);
        }
        let one = |question: &Value| {
            let method = question["method"].as_str().unwrap();
            let hash = &question["params"][0];
            let result = match script.get(method) {
                // Insert the requested hash.
                Some(Answer::Result(Value::Object(found))) => {
                    let mut found = found.clone();
                    found.insert("transactionHash".to_owned(), hash.clone());
                    Value::Object(found)
                }
                Some(Answer::Result(other)) => other.clone(),
                Some(Answer::Echo) => hash.clone(),
                _no_other => Value::Null,
            };
            json!({"jsonrpc": "2.0", "id": question["id"], "result": result})
        };
        let answers: Vec<Value> = questions.iter().rev().map(one).collect();
        ResponseTemplate::new(200).set_body_json(answers)
    }
}

pub(crate) struct Node {
    server: MockServer,
    script: Script,
}

impl Node {
    pub(crate) async fn serving(chain: ChainId) -> Self {
        let (server, script) = (MockServer::start().await, Script::default());
        Mock::given(any()).respond_with(script.clone()).mount(&server).await;
        let node = Self { server, script };
        node.set_answer("eth_chainId", Answer::Result(json!(format!("{:#x}", chain.0))));
        node
    }

    /// Starts a node of our chain where every account holds `balance` wei.
    pub(crate) async fn with_balance(balance: u64) -> Self {
        let node = Self::serving(ours()).await;
        node.set_answer("eth_getBalance", Answer::Result(json!(format!("{balance:#x}"))));
        node
    }

    /// Sets the answer to `method`; "*" is the default for all methods without their own answer.
    pub(crate) fn set_answer(&self, method: &str, answer: Answer) {
        self.script.0.lock().unwrap().insert(method.to_owned(), answer);
    }

    pub(crate) fn fail_all(&self) {
        let mut script = self.script.0.lock().unwrap();
        script.clear();
        script.insert("*".to_owned(), Answer::Text(503, "down".to_owned()));
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/v2/{SECRET}?apikey={SECRET}", self.server.uri())
    }

    /// Returns every request that reached the node, in order.
    pub(crate) async fn questions(&self) -> Vec<Value> {
        let requests = self.server.received_requests().await.unwrap();
        requests.iter().map(|request| request.body_json().unwrap()).collect()
    }

    pub(crate) async fn asked_methods(&self) -> Vec<String> {
        let method = |question: &Value| question["method"].as_str().unwrap_or("batch").to_owned();
        self.questions().await.iter().map(method).collect()
    }

    pub(crate) async fn count(&self, method: &str) -> usize {
        self.asked_methods().await.iter().filter(|asked| *asked == method).count()
    }
}

/// Returns a URL on which no process listens.
pub(crate) fn unreachable_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/{SECRET}", listener.local_addr().unwrap())
}

pub(crate) fn limits() -> RpcLimits {
    RpcLimits {
        breaker_failures: 2,
        breaker_cool_down_ms: COOL_DOWN_MS,
        identity_retry_ms: RETRY_MS,
        ..RpcLimits::default()
    }
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Utc::from_seconds(1_800_000_000)))
}

pub(crate) fn chain_with(urls: &[String], limits: RpcLimits, clock: &Arc<ManualClock>) -> RpcChain {
    let mut config = RpcConfig::new(ours(), urls);
    config.limits = limits;
    RpcChain::new(config, Arc::clone(clock) as _).unwrap()
}

pub(crate) fn chain(nodes: &[&Node]) -> RpcChain {
    let urls: Vec<String> = nodes.iter().map(|node| node.url()).collect();
    chain_with(&urls, limits(), &clock())
}
