//! A chain by the word of one node, which says what the test wants.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{Chain, Clock};
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_core::networks::by_chain;
use bursar_core::time::Utc;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::BASE;
use serde_json::{Value, json};

use crate::stage::quick;

/// When its newest block was made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Block {
    /// So many seconds before the clock of the engine, whenever it is asked; negative is after it.
    Behind(i64),
    /// At this instant, and none since.
    At(Utc),
    /// It says nothing.
    Dead,
}

/// A JSON-RPC node on this machine.
#[derive(Debug)]
pub(crate) struct Node {
    chain_id: AtomicU64,
    block: Mutex<Block>,
    clock: Arc<ManualClock>,
    blocks_asked: AtomicUsize,
    /// Questions for anything but its chain id.
    asked: AtomicUsize,
    url: Mutex<String>,
}

impl Node {
    pub(crate) async fn start(clock: &Arc<ManualClock>, chain_id: u64, block: Block) -> Arc<Self> {
        let node = Arc::new(Self {
            chain_id: AtomicU64::new(chain_id),
            block: Mutex::new(block),
            clock: Arc::clone(clock),
            blocks_asked: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            url: Mutex::default(),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        *node.url.lock().unwrap() = format!("http://{}", listener.local_addr().expect("bound"));
        let app = Router::new().route("/", post(answer)).with_state(Arc::clone(&node));
        tokio::spawn(async move { axum::serve(listener, app).await });
        node
    }

    pub(crate) fn serve_chain(&self, chain_id: u64) {
        self.chain_id.store(chain_id, Ordering::SeqCst);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn blocks_asked(&self) -> usize {
        self.blocks_asked.load(Ordering::SeqCst)
    }

    /// An engine that reaches Base through this node.
    pub(crate) fn setup(self: &Arc<Self>) -> Setup {
        let config = RpcConfig::new(BASE, [self.url.lock().unwrap().clone()]);
        let clock: Arc<dyn Clock> = Arc::clone(&self.clock) as _;
        let chain = RpcChain::new(config, clock).expect("an endpoint");
        let mut setup = Setup { clock: Arc::clone(&self.clock), ..quick() };
        setup.chains.insert(BASE, Arc::new(chain) as Arc<dyn Chain>);
        setup
    }

    /// Lets time pass until the engine has looked at the newest block as often as that.
    pub(crate) async fn looked_at(&self, engine: &TestEngine, times: usize) {
        for _turn in 0..10_000 {
            if self.blocks_asked() >= times {
                return;
            }
            engine.clock.advance(100);
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        panic!("the engine does not look at the chain");
    }
}

async fn answer(State(node): State<Arc<Node>>, question: String) -> String {
    let question: Value = serde_json::from_str(&question).unwrap_or(Value::Null);
    let method = question["method"].as_str().unwrap_or_default();
    let coin = by_chain(BASE).expect("a network").stablecoin;
    if method != "eth_chainId" {
        node.asked.fetch_add(1, Ordering::SeqCst);
    }
    let result = match method {
        "eth_chainId" => json!(format!("{:#x}", node.chain_id.load(Ordering::SeqCst))),
        "eth_call" => json!(coin.domain_separator),
        "eth_getBlockByNumber" => {
            node.blocks_asked.fetch_add(1, Ordering::SeqCst);
            let block = *node.block.lock().unwrap();
            match block {
                Block::Behind(seconds) => {
                    let at = node.clock.now().utc.seconds() - seconds;
                    json!({"timestamp": format!("{at:#x}")})
                }
                Block::At(at) => json!({"timestamp": format!("{:#x}", at.seconds())}),
                Block::Dead => Value::Null,
            }
        }
        _other => Value::Null,
    };
    json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()
}
