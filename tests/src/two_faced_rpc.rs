//! A JSON-RPC proxy whose families of methods disagree.
//!
//! Each family of methods can have its own conduct: honest, some blocks behind, of another chain, silent, and so on.
//! Within a family the answers are consistent, as behind a load balancer whose nodes differ. Unlike
//! [`crate::lying_rpc`], this proxy changes all answers of a family until a test stops it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::SolCall;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bursar_chain::abi::multicall3::IMulticall3;
use serde_json::{Value, json};

use crate::rpc_server::RpcServer;

/// A family of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `eth_chainId`.
    Identity,
    /// Calls, code, balances and estimates.
    Reads,
    /// `eth_simulateV1`.
    Simulation,
    /// Blocks and gas prices.
    Blocks,
    /// Transaction counts.
    Counts,
    /// Receipts and transactions.
    Receipts,
    Sending,
}

impl Family {
    pub const ALL: [Self; 7] = [
        Self::Identity,
        Self::Reads,
        Self::Simulation,
        Self::Blocks,
        Self::Counts,
        Self::Receipts,
        Self::Sending,
    ];

    fn of(method: &str) -> Self {
        match method {
            "eth_chainId" => Self::Identity,
            "eth_simulateV1" => Self::Simulation,
            "eth_getTransactionCount" => Self::Counts,
            "eth_getTransactionReceipt" | "eth_getTransactionByHash" => Self::Receipts,
            "eth_sendRawTransaction" => Self::Sending,
            "eth_blockNumber"
            | "eth_getBlockByNumber"
            | "eth_gasPrice"
            | "eth_maxPriorityFeePerGas"
            | "eth_feeHistory" => Self::Blocks,
            _call => Self::Reads,
        }
    }
}

/// The way in which a family answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// Answers with the state of this many blocks ago.
    ///
    /// Later receipts and transactions are unknown; a new transaction is accepted but not forwarded.
    Behind(u64),
    /// Answers with the state of the other chain.
    OtherChain,
    /// Repeats the first answer that the family gave to each question.
    Repeats,
    /// Answers with a value of the wrong type.
    Garbage,
    /// Answers with an error.
    Refuses,
    /// Does not answer for this long, and then fails as a broken gateway.
    Stalls(Duration),
    /// Answers every second question honestly, and the others from the other chain.
    Alternates,
    /// In batches of reads, changes the answers of `quoter` to `percent` percent of the real ones.
    Quotes { quoter: Address, percent: u32 },
    /// In batches of reads, moves the time of the block forward by this many seconds.
    Clock(u64),
}

/// A proxy in front of two chains: the right one and another one.
#[derive(Debug)]
pub struct TwoFacedRpc {
    pub url: String,
    state: ProxyState,
    _server: RpcServer,
}

#[derive(Debug, Clone)]
struct ProxyState {
    node: String,
    other: String,
    client: reqwest::Client,
    face: Arc<Mutex<ProxyConduct>>,
}

#[derive(Debug, Default)]
struct ProxyConduct {
    conducts: BTreeMap<Family, Conduct>,
    first_answers: BTreeMap<String, Value>,
    dishonest_answers: usize,
    alternating_questions: usize,
}

impl TwoFacedRpc {
    /// Starts a proxy that is honest until the test changes it. `other` is another chain's node.
    pub async fn in_front_of(node: &str, other: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let (node, other) = (node.to_owned(), other.to_owned());
        let state = ProxyState { node, other, client, face: Arc::default() };
        let server = RpcServer::start(post(answer), state.clone()).await;
        Self { url: server.url.clone(), state, _server: server }
    }

    /// Sets the conduct of a family from now on.
    pub fn set_conduct(&self, family: Family, conduct: Conduct) {
        self.state.face().conducts.insert(family, conduct);
    }

    /// Makes every family honest.
    pub fn be_honest(&self) {
        let mut face = self.state.face();
        face.conducts.clear();
        face.first_answers.clear();
    }

    /// Returns the number of answers that were not honest.
    pub fn dishonest_answers(&self) -> usize {
        self.state.face().dishonest_answers
    }
}

/// An HTTP answer that contains no JSON.
struct BrokenAnswer;

impl ProxyState {
    fn face(&self) -> MutexGuard<'_, ProxyConduct> {
        self.face.lock().expect("not poisoned")
    }

    /// Forwards a call to a node. A node that is itself a proxy may break the connection.
    async fn forward(&self, node: &str, call: &Value) -> Result<Value, BrokenAnswer> {
        let answer = self.client.post(node).json(call).send().await.map_err(|_cut| BrokenAnswer)?;
        answer.json().await.map_err(|_cut| BrokenAnswer)
    }

    async fn head(&self) -> Result<u64, BrokenAnswer> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []});
        let head = self.forward(&self.node, &call).await?["result"].clone();
        let head: U256 = serde_json::from_value(head).expect("a number");
        Ok(head.to())
    }

    /// Answers one call by the conduct of its family.
    async fn answer_one(&self, call: &Value) -> Result<Value, BrokenAnswer> {
        let method = call["method"].as_str().unwrap_or_default();
        let family = Family::of(method);
        let (conduct, turn) = {
            let mut face = self.face();
            face.alternating_questions += 1;
            let conduct = face.conducts.get(&family).copied();
            face.dishonest_answers += usize::from(conduct.is_some());
            (conduct, face.alternating_questions)
        };
        let Some(conduct) = conduct else { return self.forward(&self.node, call).await };
        match conduct {
            Conduct::Behind(blocks) => self.answer_behind(family, call, blocks).await,
            Conduct::OtherChain => self.forward(&self.other, call).await,
            Conduct::Alternates if turn % 2 == 0 => self.forward(&self.other, call).await,
            Conduct::Alternates => self.forward(&self.node, call).await,
            Conduct::Repeats => self.repeat(method, call).await,
            Conduct::Garbage => Ok(json!({"jsonrpc": "2.0", "id": call["id"], "result": [true]})),
            Conduct::Refuses => {
                let error = json!({"code": -32_000, "message": "try again"});
                Ok(json!({"jsonrpc": "2.0", "id": call["id"], "error": error}))
            }
            Conduct::Stalls(time) => {
                tokio::time::sleep(time).await;
                Err(BrokenAnswer)
            }
            Conduct::Quotes { quoter, percent } => {
                let change = |call: &IMulticall3::Call3, answer: &mut Vec<u8>| {
                    if call.target == quoter {
                        change_word(answer, |word| word * U256::from(percent) / U256::from(100));
                    }
                };
                Ok(change_batch(call, self.forward(&self.node, call).await?, &change))
            }
            Conduct::Clock(seconds) => {
                let time = IMulticall3::getCurrentBlockTimestampCall {}.abi_encode();
                let change = |call: &IMulticall3::Call3, answer: &mut Vec<u8>| {
                    if call.callData.as_ref() == time {
                        change_word(answer, |word| word + U256::from(seconds));
                    }
                };
                Ok(change_batch(call, self.forward(&self.node, call).await?, &change))
            }
        }
    }

    async fn answer_behind(
        &self,
        family: Family,
        call: &Value,
        blocks: u64,
    ) -> Result<Value, BrokenAnswer> {
        let result = |value: Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": value});
        match family {
            Family::Receipts => return Ok(result(Value::Null)),
            Family::Sending => {
                let raw = call["params"][0].as_str().expect("bytes");
                let bytes = hex::decode(raw.trim_start_matches("0x")).expect("hex");
                return Ok(result(json!(alloy_primitives::keccak256(bytes))));
            }
            Family::Identity
            | Family::Reads
            | Family::Simulation
            | Family::Blocks
            | Family::Counts => {}
        }
        let block = json!(format!("{:#x}", self.head().await?.saturating_sub(blocks)));
        if call["method"] == "eth_blockNumber" {
            return Ok(result(block));
        }
        let mut asked = call.clone();
        if let Value::Array(params) = &mut asked["params"] {
            for param in params.iter_mut() {
                if *param == json!("latest") || *param == json!("pending") {
                    *param = block.clone();
                }
            }
        }
        self.forward(&self.node, &asked).await
    }

    async fn repeat(&self, method: &str, call: &Value) -> Result<Value, BrokenAnswer> {
        let question = format!("{method} {}", call["params"]);
        let known = self.face().first_answers.get(&question).cloned();
        let mut answer = match known {
            Some(answer) => answer,
            None => {
                let answer = self.forward(&self.node, call).await?;
                self.face().first_answers.entry(question).or_insert(answer).clone()
            }
        };
        answer["id"] = call["id"].clone();
        Ok(answer)
    }
}

/// Changes the answers in a batch of calls, each according to its call.
fn change_batch(
    call: &Value,
    mut answer: Value,
    change: &dyn Fn(&IMulticall3::Call3, &mut Vec<u8>),
) -> Value {
    let bytes = |value: &Value| serde_json::from_value::<Bytes>(value.clone()).ok();
    let asked = ["input", "data"].iter().find_map(|name| bytes(&call["params"][0][*name]));
    let asked = asked.and_then(|data| IMulticall3::aggregate3Call::abi_decode(&data).ok());
    let found = bytes(&answer["result"]);
    let found = found.and_then(|data| IMulticall3::aggregate3Call::abi_decode_returns(&data).ok());
    let Some((asked, mut found)) = asked.zip(found) else { return answer };
    for (call, one) in asked.calls.iter().zip(&mut found) {
        let mut data = one.returnData.to_vec();
        if one.success {
            change(call, &mut data);
        }
        one.returnData = data.into();
    }
    let changed = IMulticall3::aggregate3Call::abi_encode_returns(&found);
    answer["result"] = json!(Bytes::from(changed));
    answer
}

/// Changes the first number of an answer.
fn change_word(answer: &mut [u8], change: impl Fn(U256) -> U256) {
    let Some(first) = answer.first_chunk_mut::<32>() else { return };
    *first = change(U256::from_be_bytes(*first)).to_be_bytes();
}

async fn answer(State(state): State<ProxyState>, body: String) -> Response {
    let calls = match serde_json::from_str(&body).expect("JSON") {
        Value::Array(calls) => calls,
        call => {
            let answer = state.answer_one(&call).await;
            return answer.map_or_else(|BrokenAnswer| broken(), |one| json_response(&one));
        }
    };
    let mut answers = Vec::new();
    for call in &calls {
        match state.answer_one(call).await {
            Ok(one) => answers.push(one),
            Err(BrokenAnswer) => return broken(),
        }
    }
    json_response(&Value::Array(answers))
}

fn broken() -> Response {
    (StatusCode::BAD_GATEWAY, "gone").into_response()
}

fn json_response(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}
