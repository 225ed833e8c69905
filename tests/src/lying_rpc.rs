//! A JSON-RPC proxy in front of the local chain that lies about transactions.
//!
//! It loses transactions, denies them, forgets them, and answers late or for another transaction. The chain receives
//! only the transactions that the proxy forwards.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

use crate::rpc_server::RpcServer;

/// One kind of wrong behavior.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Accepts a transaction and never broadcasts it.
    Drop,
    /// Forwards a transaction and answers a second later, when the caller has given up.
    Delay,
    /// Forwards a transaction twice.
    Duplicate,
    /// Reports the id of another chain.
    WrongChainId,
    /// Returns the receipt of another transaction.
    WrongReceipt,
    /// Returns a receipt for a transaction that is in no block.
    InventedReceipt,
    /// Rejects a transaction as already known, although the node has never seen it.
    AlreadyKnown,
    /// Rejects a transaction because of its nonce, although the nonce is valid.
    NonceTooLow,
    /// Rejects a transaction because of its price, although the price suffices.
    Underpriced,
    /// Forwards a transaction and breaks the connection.
    TimeoutAfterAccept,
    /// Forwards a transaction, and makes the node drop it before the next block.
    Forget,
    /// Forwards a transaction, and removes its block by a reorganisation as soon as it is mined.
    Reorg,
    /// Reports that the address has sent no transaction.
    CountBehind,
    /// Forwards a transaction two seconds late.
    Late,
    /// Rejects `eth_simulateV1` as unknown. This is not a lie: many nodes do not implement it.
    NoSimulation,
}

/// The delay of [`Lie::Late`].
pub const LATE_DELAY: Duration = Duration::from_secs(2);

impl Lie {
    /// The lies about transactions.
    pub const ALL: [Lie; 13] = [
        Lie::Drop,
        Lie::Delay,
        Lie::Duplicate,
        Lie::WrongChainId,
        Lie::WrongReceipt,
        Lie::InventedReceipt,
        Lie::AlreadyKnown,
        Lie::NonceTooLow,
        Lie::Underpriced,
        Lie::TimeoutAfterAccept,
        Lie::Forget,
        Lie::Reorg,
        Lie::CountBehind,
    ];

    /// The method whose answer this lie changes.
    fn method(self) -> &'static str {
        match self {
            Lie::WrongChainId => "eth_chainId",
            Lie::WrongReceipt | Lie::InventedReceipt => "eth_getTransactionReceipt",
            Lie::CountBehind => "eth_getTransactionCount",
            Lie::NoSimulation => "eth_simulateV1",
            Lie::Drop
            | Lie::Delay
            | Lie::Late
            | Lie::Duplicate
            | Lie::AlreadyKnown
            | Lie::NonceTooLow
            | Lie::Underpriced
            | Lie::TimeoutAfterAccept
            | Lie::Forget
            | Lie::Reorg => "eth_sendRawTransaction",
        }
    }
}

/// A false statement about prices or accounts, repeated in every answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The gas price is this many wei, in blocks and in the gas price methods.
    GasPrice(u128),
    /// Every account has this many wei.
    Balance(u128),
}

impl Claim {
    /// Returns the answer changed by this claim; `None` if the claim does not concern the method.
    fn apply(self, method: &str, answer: &Value) -> Option<Value> {
        let mut changed = answer.clone();
        match (self, method) {
            (Claim::GasPrice(wei), "eth_gasPrice" | "eth_maxPriorityFeePerGas")
            | (Claim::Balance(wei), "eth_getBalance") => changed["result"] = hex_number(wei),
            (Claim::GasPrice(wei), "eth_getBlockByNumber") if answer["result"].is_object() => {
                changed["result"]["baseFeePerGas"] = hex_number(wei);
            }
            _unaffected => return None,
        }
        Some(changed)
    }
}

fn hex_number(number: u128) -> Value {
    Value::from(format!("{number:#x}"))
}

/// A claim, and the number of answers that stay honest before it applies.
#[derive(Debug)]
struct PendingClaim {
    claim: Claim,
    honest_answers: usize,
}

/// A proxy that answers with the queued lies and claims, and is honest otherwise.
#[derive(Debug)]
pub struct LyingRpc {
    pub url: String,
    state: ProxyState,
    _server: RpcServer,
}

#[derive(Debug, Clone)]
struct ProxyState {
    node: String,
    client: reqwest::Client,
    lies: Arc<Mutex<LieQueue>>,
}

#[derive(Debug, Default)]
struct LieQueue {
    queued: VecDeque<Lie>,
    lies_told: usize,
    claims: Vec<PendingClaim>,
    /// Number of answers that a claim changed.
    claims_made: usize,
    /// Every transaction that was broadcast, in order.
    broadcast: Vec<String>,
    /// The proxy answers nothing until this time.
    frozen_until: Option<tokio::time::Instant>,
}

impl LyingRpc {
    /// Starts a proxy in front of a node, honest until the test adds lies.
    pub async fn in_front_of(node: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let state = ProxyState { node: node.to_owned(), client, lies: Arc::default() };
        let server = RpcServer::start(post(answer), state.clone()).await;
        Self { url: server.url.clone(), state, _server: server }
    }

    /// Queues lies: each changes the next answer of its method, in this order.
    pub fn queue_lies(&self, lies: impl IntoIterator<Item = Lie>) {
        self.state.lies().queued.extend(lies);
    }

    /// Adds a claim. The first `honest` answers that it could change stay honest.
    pub fn claim_after(&self, honest: usize, claim: Claim) {
        self.state.lies().claims.push(PendingClaim { claim, honest_answers: honest });
    }

    /// Drops the queued lies and all claims.
    pub fn be_honest(&self) {
        let mut lies = self.state.lies();
        lies.queued.clear();
        lies.claims.clear();
    }

    /// Returns the number of answers that a claim changed.
    pub fn claims_made(&self) -> usize {
        self.state.lies().claims_made
    }

    /// Answers nothing for this long.
    pub fn freeze(&self, time: Duration) {
        self.state.lies().frozen_until = Some(tokio::time::Instant::now() + time);
    }

    /// Returns the number of queued lies that were used.
    pub fn lies_told(&self) -> usize {
        self.state.lies().lies_told
    }

    /// Returns every transaction broadcast so far, in order, duplicates included.
    pub fn broadcast_transactions(&self) -> Vec<String> {
        self.state.lies().broadcast.clone()
    }
}

impl ProxyState {
    fn lies(&self) -> MutexGuard<'_, LieQueue> {
        self.lies.lock().expect("not poisoned")
    }

    /// Takes the next queued lie if it concerns this method.
    fn next(&self, method: &str) -> Option<Lie> {
        let mut lies = self.lies();
        let due = lies.queued.front().copied().filter(|lie| lie.method() == method)?;
        lies.queued.pop_front();
        lies.lies_told += 1;
        Some(due)
    }

    /// Returns the node's answer, changed by the claims.
    fn apply_claims(&self, method: &str, mut answer: Value) -> Value {
        let mut lies = self.lies();
        let mut claims_made = 0;
        for pending in &mut lies.claims {
            let Some(changed) = pending.claim.apply(method, &answer) else { continue };
            match pending.honest_answers.checked_sub(1) {
                Some(left) => pending.honest_answers = left,
                None => {
                    answer = changed;
                    claims_made += 1;
                }
            }
        }
        lies.claims_made += claims_made;
        answer
    }

    async fn forward(&self, call: &Value) -> Value {
        let answer = self.client.post(&self.node).json(call).send().await;
        answer.expect("the chain answers").json().await.expect("JSON")
    }

    async fn call_node(&self, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.forward(&call).await["result"].clone()
    }

    /// Removes the block that contains a transaction, and all later blocks, once it is mined. If the node mines a
    /// block by itself during the reorganisation, the block numbers get a gap.
    async fn remove_block_of(&self, transaction: &Value) {
        let block = loop {
            let receipt = self.call_node("eth_getTransactionReceipt", json!([transaction])).await;
            if let Some(block) = number(&receipt["blockNumber"]) {
                break block;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let head = number(&self.call_node("eth_blockNumber", json!([])).await).expect("a number");
        self.call_node("anvil_reorg", json!([head - block + 1, []])).await;
    }
}

fn number(quantity: &Value) -> Option<u64> {
    u64::from_str_radix(quantity.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Returns a response whose body breaks off before its first byte, so that the caller sees a dead connection.
fn broken_response() -> Response {
    let gone = async { Err::<Vec<u8>, _>(std::io::Error::other("gone")) };
    let body = Body::from_stream(futures::stream::once(gone));
    Response::builder().status(StatusCode::OK).body(body).expect("a response")
}

fn json_response(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

async fn answer(State(state): State<ProxyState>, body: String) -> Response {
    let frozen_until = state.lies().frozen_until;
    if let Some(until) = frozen_until {
        tokio::time::sleep_until(until).await;
    }
    match serde_json::from_str(&body).expect("JSON") {
        Value::Array(calls) => {
            let mut answers = Vec::new();
            for call in &calls {
                match answer_one(&state, call).await {
                    Ok(one) => answers.push(one),
                    Err(broken) => return broken,
                }
            }
            // Batch answers may arrive in any order.
            answers.reverse();
            json_response(&Value::Array(answers))
        }
        call => {
            answer_one(&state, &call).await.map_or_else(|broken| broken, |one| json_response(&one))
        }
    }
}

/// Answers one call. The error is a response whose connection breaks.
async fn answer_one(state: &ProxyState, call: &Value) -> Result<Value, Response> {
    let method = call["method"].as_str().unwrap_or_default().to_owned();
    if method == "eth_sendRawTransaction" {
        let raw = call["params"][0].as_str().expect("bytes").to_owned();
        state.lies().broadcast.push(raw);
    }
    let result = |value: Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": value});
    let rejected = |message: &str| {
        let error = json!({"code": -32000, "message": message});
        json!({"jsonrpc": "2.0", "id": call["id"], "error": error})
    };
    let Some(lie) = state.next(&method) else {
        let answer = state.forward(call).await;
        return Ok(state.apply_claims(&method, answer));
    };
    let hash = || {
        let raw = call["params"][0].as_str().expect("bytes");
        let bytes = hex::decode(raw.trim_start_matches("0x")).expect("hex");
        Value::from(alloy_primitives::keccak256(bytes).to_string())
    };
    Ok(match lie {
        Lie::Drop => result(hash()),
        Lie::Delay => {
            let answer = state.forward(call).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            answer
        }
        Lie::Late => {
            let (state, call) = (state.clone(), call.clone());
            // The call is forwarded even if the caller no longer waits for the answer.
            let late = tokio::spawn(async move {
                tokio::time::sleep(LATE_DELAY).await;
                state.forward(&call).await
            });
            late.await.expect("forwarded")
        }
        Lie::Duplicate => {
            let _first = state.forward(call).await;
            state.forward(call).await
        }
        Lie::WrongChainId => result(json!("0x1")),
        Lie::WrongReceipt => result(receipt(&json!(format!("0x{}", "ab".repeat(32))))),
        Lie::InventedReceipt => {
            let head = state.call_node("eth_blockNumber", json!([])).await;
            let mut invented = receipt(&call["params"][0]);
            invented["blockNumber"] = head;
            result(invented)
        }
        Lie::AlreadyKnown => rejected("already known"),
        Lie::NonceTooLow => rejected("nonce too low"),
        Lie::Underpriced => rejected("replacement transaction underpriced"),
        Lie::TimeoutAfterAccept => {
            let _taken = state.forward(call).await;
            return Err(broken_response());
        }
        Lie::Forget => {
            let answer = state.forward(call).await;
            state.call_node("anvil_dropTransaction", json!([answer["result"]])).await;
            answer
        }
        Lie::Reorg => {
            let answer = state.forward(call).await;
            if answer["error"].is_null() {
                state.remove_block_of(&hash()).await;
            }
            answer
        }
        Lie::CountBehind => result(json!("0x0")),
        Lie::NoSimulation => rejected("the method eth_simulateV1 does not exist"),
    })
}

fn receipt(hash: &Value) -> Value {
    json!({
        "transactionHash": hash, "blockNumber": "0x1", "blockHash": format!("0x{}", "cd".repeat(32)),
        "status": "0x1", "gasUsed": "0x5208", "logs": [],
    })
}
