//! A node in front of the local chain that lies about transactions: it loses them, denies them, forgets
//! them, answers late or for something else. What it passes on is what the chain gets to see.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// One thing that a node does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Takes a transaction and says so, and nobody else ever hears of it.
    Drop,
    /// Takes a transaction, and answers when nobody listens any more.
    Delay,
    /// Passes a transaction on twice.
    Duplicate,
    /// Says that it serves another chain.
    WrongChainId,
    /// Gives a receipt of another transaction.
    WrongReceipt,
    /// Gives a receipt for a transaction that is in no block.
    InventedReceipt,
    /// Refuses a transaction as known, that it has never seen.
    AlreadyKnown,
    /// Refuses a transaction because of its nonce, which is fine.
    NonceTooLow,
    /// Refuses a transaction because of its price, which is fine.
    Underpriced,
    /// Takes a transaction and breaks the connection.
    TimeoutAfterAccept,
    /// Takes a transaction, and forgets it before the next block.
    Forget,
    /// Takes a transaction, has it mined, and then the block never was.
    Reorg,
    /// Says that nothing was ever sent from the address.
    CountBehind,
    /// Passes a transaction on two seconds late.
    Late,
    /// Does not know `eth_simulateV1`. No lie, but what many nodes say.
    NoSimulation,
}

/// How late [`Lie::Late`] is.
pub const LATE: Duration = Duration::from_secs(2);

impl Lie {
    /// Those about transactions.
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

    /// The method whose answer it is about.
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

/// What a node says wrongly of prices and accounts, each time that it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Gas costs so many wei, by its blocks and by its methods.
    GasPrice(u128),
    /// Every account has so many wei.
    Balance(u128),
}

impl Claim {
    /// The answer with this claim in it; `None` where it is about something else.
    fn bend(self, method: &str, told: &Value) -> Option<Value> {
        let mut bent = told.clone();
        match (self, method) {
            (Claim::GasPrice(wei), "eth_gasPrice" | "eth_maxPriorityFeePerGas")
            | (Claim::Balance(wei), "eth_getBalance") => bent["result"] = hex_number(wei),
            (Claim::GasPrice(wei), "eth_getBlockByNumber") if told["result"].is_object() => {
                bent["result"]["baseFeePerGas"] = hex_number(wei);
            }
            _other => return None,
        }
        Some(bent)
    }
}

fn hex_number(number: u128) -> Value {
    Value::from(format!("{number:#x}"))
}

/// A claim, and how many answers about the same stay honest before it is made.
#[derive(Debug)]
struct Standing {
    claim: Claim,
    honest: usize,
}

/// A node that lies as often as it is told to, and is honest from then on.
#[derive(Debug)]
pub struct LyingRpc {
    pub url: String,
    way: Way,
    server: JoinHandle<()>,
}

#[derive(Debug, Clone)]
struct Way {
    node: String,
    client: reqwest::Client,
    state: Arc<Mutex<Lies>>,
}

#[derive(Debug, Default)]
struct Lies {
    due: VecDeque<Lie>,
    told: usize,
    claims: Vec<Standing>,
    /// How many answers held a claim.
    claimed: usize,
    /// Every transaction that somebody broadcast, in order.
    broadcast: Vec<String>,
    /// Until when nothing is answered.
    frozen_until: Option<tokio::time::Instant>,
}

impl LyingRpc {
    /// In front of a node, honest until it is told to lie.
    pub async fn before(node: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let way = Way { node: node.to_owned(), client, state: Arc::default() };
        let router = Router::new().route("/", post(answer)).with_state(way.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let serve = async move { axum::serve(listener, router).await.expect("served") };
        Self { url, way, server: tokio::spawn(serve) }
    }

    /// The next answers of the kind are these lies.
    pub fn tell(&self, lies: impl IntoIterator<Item = Lie>) {
        self.way.lies().due.extend(lies);
    }

    /// Claims this from now on, after so many honest answers about the same.
    pub fn claim_after(&self, honest: usize, claim: Claim) {
        self.way.lies().claims.push(Standing { claim, honest });
    }

    /// Drops the lies that are still to be told, and all claims.
    pub fn be_honest(&self) {
        let mut lies = self.way.lies();
        lies.due.clear();
        lies.claims.clear();
    }

    /// How many answers held a claim.
    pub fn claimed(&self) -> usize {
        self.way.lies().claimed
    }

    /// Answers nothing for a while.
    pub fn freeze(&self, time: Duration) {
        self.way.lies().frozen_until = Some(tokio::time::Instant::now() + time);
    }

    /// How many lies were told.
    pub fn told(&self) -> usize {
        self.way.lies().told
    }

    /// Every transaction that was broadcast to it so far, in order and as often.
    pub fn broadcast(&self) -> Vec<String> {
        self.way.lies().broadcast.clone()
    }
}

impl Drop for LyingRpc {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Way {
    fn lies(&self) -> MutexGuard<'_, Lies> {
        self.state.lock().expect("not poisoned")
    }

    /// The lie that is due for this method, if one is.
    fn next(&self, method: &str) -> Option<Lie> {
        let mut lies = self.lies();
        let due = lies.due.front().copied().filter(|lie| lie.method() == method)?;
        lies.due.pop_front();
        lies.told += 1;
        Some(due)
    }

    /// An answer of the node with what is claimed instead.
    fn bent(&self, method: &str, told: Value) -> Value {
        let mut lies = self.lies();
        let mut answer = told;
        let mut claimed = 0;
        for standing in &mut lies.claims {
            let Some(bent) = standing.claim.bend(method, &answer) else { continue };
            match standing.honest.checked_sub(1) {
                Some(left) => standing.honest = left,
                None => {
                    answer = bent;
                    claimed += 1;
                }
            }
        }
        lies.claimed += claimed;
        answer
    }

    async fn pass_on(&self, call: &Value) -> Value {
        let told = self.client.post(&self.node).json(call).send().await;
        told.expect("the chain answers").json().await.expect("JSON")
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.pass_on(&call).await["result"].clone()
    }
}

/// A body that breaks off before it began: the caller sees a connection that died.
fn broken() -> Response {
    let gone = async { Err::<Vec<u8>, _>(std::io::Error::other("gone")) };
    let body = Body::from_stream(futures::stream::once(gone));
    Response::builder().status(StatusCode::OK).body(body).expect("a response")
}

fn answered(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

async fn answer(State(way): State<Way>, body: String) -> Response {
    let frozen_until = way.lies().frozen_until;
    if let Some(until) = frozen_until {
        tokio::time::sleep_until(until).await;
    }
    match serde_json::from_str(&body).expect("JSON") {
        Value::Array(calls) => {
            let mut answers = Vec::new();
            for call in &calls {
                match answer_one(&way, call).await {
                    Ok(one) => answers.push(one),
                    Err(broken) => return broken,
                }
            }
            // In another order than asked: nodes may.
            answers.reverse();
            answered(&Value::Array(answers))
        }
        call => answer_one(&way, &call).await.map_or_else(|broken| broken, |one| answered(&one)),
    }
}

/// One answer, or a connection that breaks.
async fn answer_one(way: &Way, call: &Value) -> Result<Value, Response> {
    let method = call["method"].as_str().unwrap_or_default().to_owned();
    if method == "eth_sendRawTransaction" {
        let raw = call["params"][0].as_str().expect("bytes").to_owned();
        way.lies().broadcast.push(raw);
    }
    let result = |value: Value| json!({"jsonrpc": "2.0", "id": call["id"], "result": value});
    let refused = |message: &str| {
        let error = json!({"code": -32000, "message": message});
        json!({"jsonrpc": "2.0", "id": call["id"], "error": error})
    };
    let Some(lie) = way.next(&method) else {
        let told = way.pass_on(call).await;
        return Ok(way.bent(&method, told));
    };
    let hash = || {
        let raw = call["params"][0].as_str().expect("bytes");
        let bytes = hex::decode(raw.trim_start_matches("0x")).expect("hex");
        Value::from(alloy_primitives::keccak256(bytes).to_string())
    };
    Ok(match lie {
        Lie::Drop => result(hash()),
        Lie::Delay => {
            let told = way.pass_on(call).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            told
        }
        Lie::Late => {
            let (way, call) = (way.clone(), call.clone());
            // Also when nobody waits for the answer any more.
            let late = tokio::spawn(async move {
                tokio::time::sleep(LATE).await;
                way.pass_on(&call).await
            });
            late.await.expect("passed on")
        }
        Lie::Duplicate => {
            let _first = way.pass_on(call).await;
            way.pass_on(call).await
        }
        Lie::WrongChainId => result(json!("0x1")),
        Lie::WrongReceipt => result(receipt(&json!(format!("0x{}", "ab".repeat(32))))),
        Lie::InventedReceipt => {
            let head = way.ask("eth_blockNumber", json!([])).await;
            let mut invented = receipt(&call["params"][0]);
            invented["blockNumber"] = head;
            result(invented)
        }
        Lie::AlreadyKnown => refused("already known"),
        Lie::NonceTooLow => refused("nonce too low"),
        Lie::Underpriced => refused("replacement transaction underpriced"),
        Lie::TimeoutAfterAccept => {
            let _taken = way.pass_on(call).await;
            return Err(broken());
        }
        Lie::Forget => {
            let told = way.pass_on(call).await;
            way.ask("anvil_dropTransaction", json!([told["result"]])).await;
            told
        }
        Lie::Reorg => {
            let told = way.pass_on(call).await;
            way.ask("anvil_mine", json!(["0x1"])).await;
            way.ask("anvil_reorg", json!([1, []])).await;
            told
        }
        Lie::CountBehind => result(json!("0x0")),
        Lie::NoSimulation => refused("the method eth_simulateV1 does not exist"),
    })
}

fn receipt(hash: &Value) -> Value {
    json!({
        "transactionHash": hash, "blockNumber": "0x1", "blockHash": format!("0x{}", "cd".repeat(32)),
        "status": "0x1", "gasUsed": "0x5208", "logs": [],
    })
}
