//! Chains with scripted answers: a JSON-RPC node, and an implementation of the `Chain` port.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, Bytes};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{BlockTag, Chain, ChainFault, ChainReply, Clock};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_core::networks::by_chain;
use bursar_core::time::Utc;
use bursar_tests::engine::Setup;
use bursar_tests::offers::BASE;
use serde_json::{Value, json};

use crate::threats::stage::unlimited_in_memory;

/// A JSON-RPC node on this machine.
#[derive(Debug)]
pub(crate) struct Node {
    chain_id: AtomicU64,
    clock: Arc<ManualClock>,
    /// Requests other than `eth_chainId`.
    requests: AtomicUsize,
    /// The `eth_call` requests among them.
    calls: AtomicUsize,
    url: Mutex<String>,
}

impl Node {
    pub(crate) async fn start(clock: &Arc<ManualClock>, chain_id: u64) -> Arc<Self> {
        let node = Arc::new(Self {
            chain_id: AtomicU64::new(chain_id),
            clock: Arc::clone(clock),
            requests: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            url: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        *node.url.lock().unwrap() = format!("http://{}", listener.local_addr().expect("bound"));
        let app = Router::new().fallback(post(answer)).with_state(Arc::clone(&node));
        tokio::spawn(async move { axum::serve(listener, app).await });
        node
    }

    pub(crate) fn serve_chain(&self, chain_id: u64) {
        self.chain_id.store(chain_id, Ordering::SeqCst);
    }

    pub(crate) fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns the setup of an engine that reaches Base through this node.
    pub(crate) fn setup(self: &Arc<Self>) -> Setup {
        let config = RpcConfig::new(BASE, [self.url()]);
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let chain = RpcChain::new(config, clock).expect("an endpoint");
        let mut setup = Setup { clock: Arc::clone(&self.clock), ..unlimited_in_memory() };
        setup.chains.insert(BASE, Arc::new(chain) as Arc<dyn Chain>);
        setup
    }
}

async fn answer(State(node): State<Arc<Node>>, question: String) -> String {
    let question: Value = serde_json::from_str(&question).unwrap_or(Value::Null);
    let method = question["method"].as_str().unwrap_or_default();
    let coin = by_chain(BASE).expect("a network").stablecoin;
    if method != "eth_chainId" {
        node.requests.fetch_add(1, Ordering::SeqCst);
    }
    if method == "eth_call" {
        node.calls.fetch_add(1, Ordering::SeqCst);
    }
    let result = match method {
        "eth_chainId" => json!(format!("{:#x}", node.chain_id.load(Ordering::SeqCst))),
        "eth_call" => json!(coin.domain_separator),
        // The time is far from any clock's, so an engine that accepted it would hold payments.
        "eth_getBlockByNumber" => json!({"timestamp": "0x1"}),
        _other => Value::Null,
    };
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
}

/// The time of the newest block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Block {
    /// This many seconds before the engine's clock at each probe; negative means after it.
    Behind(i64),
    /// Fixed at this instant; no block follows.
    At(Utc),
    /// The current time by a clock that starts here and follows uptime; setting the machine's clock does not move it.
    Since(Utc),
    /// No answer.
    NoAnswer,
}

/// A chain that answers only for the block time, and without delay. Once a probe is counted, the engine has already
/// processed its result.
#[derive(Debug)]
pub(crate) struct BlockTimeChain {
    clock: Arc<ManualClock>,
    newest: Block,
    requests: AtomicUsize,
}

impl BlockTimeChain {
    pub(crate) fn new(clock: &Arc<ManualClock>, newest: Block) -> Arc<Self> {
        Arc::new(Self { clock: Arc::clone(clock), newest, requests: AtomicUsize::new(0) })
    }

    /// Returns the number of probes by the engine.
    pub(crate) fn probes(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Waits until the engine has probed this many times.
    pub(crate) async fn until_probed(&self, times: usize) {
        while self.probes() < times {
            tokio::task::yield_now().await;
        }
    }
}

/// A chain that receives calls and never answers them.
#[derive(Debug, Default)]
pub(crate) struct SilentChain {
    calls: AtomicUsize,
}

impl SilentChain {
    /// Waits until the engine has made this many calls.
    pub(crate) async fn until_called(&self, times: usize) {
        while self.calls.load(Ordering::SeqCst) < times {
            tokio::task::yield_now().await;
        }
    }
}

impl Chain for SilentChain {
    fn missing(&self, _method: &'static str) -> ChainFault {
        unavailable()
    }

    fn call(&self, _to: Address, _data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

pub(crate) fn unavailable() -> ChainFault {
    ChainFault::Unavailable { tried: Vec::new() }
}

impl Chain for BlockTimeChain {
    fn missing(&self, _method: &'static str) -> ChainFault {
        unavailable()
    }

    fn block_time(&self) -> ChainReply<'_, Utc> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        match self.newest {
            Block::Behind(seconds) => {
                let at = self.clock.now().utc.plus_ms(-seconds * 1000);
                Box::pin(async move { Ok(at) })
            }
            Block::At(at) => Box::pin(async move { Ok(at) }),
            Block::Since(start) => {
                let on_ms = i64::try_from(self.clock.now().mono_ms).expect("a test is short");
                Box::pin(async move { Ok(start.plus_ms(on_ms)) })
            }
            Block::NoAnswer => Box::pin(async { Err(unavailable()) }),
        }
    }
}
