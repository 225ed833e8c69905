//! The engine's calls to the outside, observed at its ports.
//!
//! It makes no call without a cause, and calls chain and explorer only for requests that
//! need them by the specification.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, Bytes, U256};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{
    BlockTag, BoxFuture, Chain, ChainReply, Clock, Explorer, ExplorerFault, IconFault, Icons,
    Pixels, Receipt, Registry, RegistryFault, RegistryReply, TokenBalance,
};
use bursar_core::networks::{ChainId, by_chain};
use bursar_core::time::Utc;
use bursar_engine::ports::Ports;
use bursar_tests::engine::{NEW_YEAR_S, Setup, TestEngine, UNLIMITED_RATE_SETTINGS};
use bursar_tests::offers::{self, BASE, offer};
use bursar_tests::operator::Expect;
use serde_json::json;

/// Returns the names of the counterparties. A new port breaks this destructuring, so that its
/// counterparty is considered here.
fn counterparties(ports: &Ports) -> [&'static str; 4] {
    let Ports {
        chains: _,
        explorers: _,
        prices: _,
        icons: _,
        registry: _,
        clock: _,
        random: _,
        disk: _,
        // Devices are on this machine, so they are not counterparties.
        devices: _,
        failpoints: _,
        signer: _,
        rules: _,
    } = ports;
    ["chain", "explorer", "host of an icon", "registry of mandates"]
}

/// Records every call, and answers like a healthy chain.
#[derive(Debug)]
struct Recorder {
    calls: Mutex<BTreeSet<&'static str>>,
    clock: Arc<ManualClock>,
}

impl Recorder {
    fn record_call<T>(&self, what: &'static str, answer: T) -> BoxFuture<'_, T>
    where
        T: Send + 'static,
    {
        self.calls.lock().unwrap().insert(what);
        Box::pin(std::future::ready(answer))
    }

    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap()).into_iter().collect()
    }
}

impl Chain for Recorder {
    fn chain_id(&self) -> ChainReply<'_, ChainId> {
        self.record_call("chain id", Ok(BASE))
    }

    fn call(&self, _to: Address, _data: Bytes, _block: BlockTag) -> ChainReply<'_, Bytes> {
        self.record_call("call", Ok(Bytes::new()))
    }

    fn balance(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, U256> {
        self.record_call("balance", Ok(U256::ZERO))
    }

    fn code_at(&self, _address: Address, _block: BlockTag) -> ChainReply<'_, Bytes> {
        self.record_call("code", Ok(Bytes::new()))
    }

    fn receipt(&self, _hash: B256) -> ChainReply<'_, Option<Receipt>> {
        self.record_call("receipt", Ok(None))
    }

    fn block_time(&self) -> ChainReply<'_, Utc> {
        self.record_call("block time", Ok(self.clock.now().utc))
    }

    fn send_raw(&self, _raw: Bytes) -> ChainReply<'_, B256> {
        self.record_call("send", Ok(B256::ZERO))
    }
}

impl Explorer for Recorder {
    fn tokens(&self, _address: Address) -> BoxFuture<'_, Result<Vec<TokenBalance>, ExplorerFault>> {
        let dollar = TokenBalance {
            address: by_chain(BASE).expect("a network").stablecoin.address,
            symbol: "USDC".to_owned(),
            decimals: Some(6),
            amount: U256::ZERO,
            icon: Some("https://icons.example/usdc.png".to_owned()),
        };
        self.record_call("tokens", Ok(vec![dollar]))
    }
}

impl Registry for Recorder {
    fn look_up<'a>(
        &'a self,
        _base: &'a str,
        _id: &'a str,
    ) -> BoxFuture<'a, Result<RegistryReply, RegistryFault>> {
        self.record_call("lookup of a mandate", Ok(RegistryReply { status: 404, body: Vec::new() }))
    }

    fn publish<'a>(
        &'a self,
        _base: &'a str,
        document: String,
    ) -> BoxFuture<'a, Result<RegistryReply, RegistryFault>> {
        let mandate: serde_json::Value = serde_json::from_str(&document).expect("JSON");
        let body = json!({ "id": mandate["id"], "url": null }).to_string().into_bytes();
        self.record_call("upload of a mandate", Ok(RegistryReply { status: 201, body }))
    }
}

impl Icons for Recorder {
    fn fetch<'a>(&'a self, _url: &'a str) -> BoxFuture<'a, Result<Pixels, IconFault>> {
        self.record_call("icon", Err(IconFault::NotAnIcon))
    }
}

/// Returns the calls since the last time, after all background work is done.
async fn calls_since(recorder: &Recorder) -> Vec<&'static str> {
    for _turn in 0..200 {
        tokio::task::yield_now().await;
    }
    recorder.take_calls()
}

/// Commands that call no counterparty.
const READING: &[&str] =
    &["status", "requests --all", "history", "network list", "config list", "audit verify"];

/// Starts an engine with a wallet, whose counterparties are the recorder.
async fn start_recorded_engine() -> (TestEngine, Arc<Recorder>) {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
    let recorder = Arc::new(Recorder { calls: Mutex::default(), clock: Arc::clone(&clock) });
    let engine = TestEngine::start(Setup {
        clock,
        chains: BTreeMap::from([(BASE, Arc::clone(&recorder) as Arc<dyn Chain>)]),
        explorers: BTreeMap::from([(BASE, Arc::clone(&recorder) as Arc<dyn Explorer>)]),
        icons: Arc::clone(&recorder) as Arc<dyn Icons>,
        registry: Arc::clone(&recorder) as Arc<dyn Registry>,
        settings: UNLIMITED_RATE_SETTINGS,
        ..Setup::default()
    })
    .await;
    assert_eq!(
        counterparties(engine.engine.ports()),
        ["chain", "explorer", "host of an icon", "registry of mandates"]
    );
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    (engine, recorder)
}

#[tokio::test]
async fn each_request_queries_only_the_counterparties_that_it_needs() {
    let (engine, recorder) = start_recorded_engine().await;
    let agent = engine.add_agent("bot", "hmac").await;
    assert_eq!(calls_since(&recorder).await, [""; 0], "an engine that nobody calls asks nobody");

    // The first payment also compares the clock with the chain's, in the background.
    let paid = engine.post("/sign", &agent.ask(engine.now_s(), &offer(10_000, 1), None)).await.1;
    assert_eq!(paid["status"], "success", "{paid}");
    assert_eq!(calls_since(&recorder).await, ["block time"]);
    engine.post("/sign", &agent.ask(engine.now_s(), &offer(10_000, 2), None)).await;
    assert_eq!(calls_since(&recorder).await, [""; 0]);

    let mut other = offers::challenge(BASE, 10_000, "https://api.example.com/3");
    other["accepts"][0]["extra"]["name"] = json!("Another Name");
    engine.post("/sign", &agent.ask(engine.now_s(), &offers::header(&other), None)).await;
    assert_eq!(calls_since(&recorder).await, ["call"], "whose name the offer contradicts");

    let id = paid["transaction_id"].as_str().unwrap();
    let hash = format!("0x{}", "ab".repeat(32));
    let report = agent.report(engine.now_s(), id, "settled", Some(&hash));
    assert_eq!(engine.post("/callback", &report).await.0, 200);
    // The probe runs in the background: advance the clock until it has run.
    let mut turns = 0;
    let looked = loop {
        turns += 1;
        assert!(turns < 400, "it never looks");
        engine.clock.advance(500);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        let calls = calls_since(&recorder).await;
        if !calls.is_empty() {
            break calls;
        }
    };
    assert_eq!(looked, ["receipt"]);

    for path in ["/mandate", "/status", "/venues"] {
        engine.post(path, &agent.read(engine.now_s())).await;
    }
    for path in ["/health", "/agent", "/receipt/0", "/openapi.json", &format!("/receipt/{id}")] {
        engine.get(path).await;
    }
    assert_eq!(calls_since(&recorder).await, [""; 0]);
    assert_eq!(engine.post("/balances", &agent.read(engine.now_s())).await.0, 200);
    assert_eq!(calls_since(&recorder).await, ["balance", "call", "tokens"]);

    let mut operator = engine.operator();
    for line in READING {
        operator.must(line).await;
    }
    assert_eq!(calls_since(&recorder).await, [""; 0]);
}

#[tokio::test]
async fn hosts_of_icons_are_called_only_for_consoles_that_draw_them() {
    let (engine, recorder) = start_recorded_engine().await;
    let agent = engine.add_agent("bot", "hmac").await;
    engine.post("/balances", &agent.read(engine.now_s())).await;
    assert_eq!(calls_since(&recorder).await, ["balance", "call", "tokens"]);
    let mut operator = engine.operator();
    operator.run_refused("icons").await;
    assert_eq!(calls_since(&recorder).await, [""; 0]);

    operator.must("config set icons true").await;
    for line in READING {
        operator.must(line).await;
    }
    assert_eq!(calls_since(&recorder).await, [""; 0]);
    operator.must("icons").await;
    assert_eq!(calls_since(&recorder).await, ["icon"]);
    // A failure is not repeated at once.
    operator.must("icons").await;
    assert_eq!(calls_since(&recorder).await, [""; 0]);
}

/// Lines of every command that could have a reason to call a registry, and of many that have none.
const WITH_A_MANDATE: &[&str] = &[
    "mandate create bot",
    "mandate create bot --new",
    "mandate list",
    "mandate show bot",
    "agent show bot",
    "agent list",
    "agent commission bot p pay --mandate",
    "policy edit p --day 11",
    "mandate create bot",
    "agent instructions bot --regenerate",
    "mandate create bot",
    "freeze",
    "thaw",
    "config set registry.url https://registry.example",
    "wallet lock",
    "wallet open",
];

#[tokio::test]
async fn a_registry_is_called_only_by_upload_and_by_the_retirement_of_what_it_publishes() {
    let (engine, recorder) = start_recorded_engine().await;
    engine.add_agent("bot", "hmac").await;
    let mut operator = engine.operator();
    operator.must("config set registry.url https://registry.example").await;
    let registry = |calls: Vec<&'static str>| -> Vec<&'static str> {
        calls.into_iter().filter(|call| call.contains("mandate")).collect()
    };
    calls_since(&recorder).await;
    for line in WITH_A_MANDATE.iter().chain(READING) {
        operator.must(line).await;
        assert_eq!(registry(calls_since(&recorder).await), [""; 0], "{line}");
    }
    let agent = engine.add_agent("reader", "hmac").await;
    for path in ["/mandate", "/status", "/balances"] {
        engine.post(path, &agent.read(engine.now_s())).await;
    }
    operator.must("mandate create reader").await;
    operator.must("mandate retire reader").await;
    operator.must("mandate retire bot --no-upload").await;
    assert_eq!(registry(calls_since(&recorder).await), [""; 0]);
    operator.must("mandate create bot").await;
    operator.must("mandate upload bot").await;
    assert_eq!(registry(calls_since(&recorder).await), ["upload of a mandate"]);
    for line in WITH_A_MANDATE.iter().chain(READING) {
        operator.must(line).await;
        assert_eq!(registry(calls_since(&recorder).await), [""; 0], "{line}");
    }
    operator.must("mandate retire bot").await;
    assert_eq!(
        registry(calls_since(&recorder).await),
        ["lookup of a mandate", "upload of a mandate"]
    );
}

/// An explorer of a network on which every address was sent 300 tokens.
#[derive(Debug)]
struct SpamExplorer(u8);

impl Explorer for SpamExplorer {
    fn tokens(&self, _owner: Address) -> BoxFuture<'_, Result<Vec<TokenBalance>, ExplorerFault>> {
        let held = |number: u16| TokenBalance {
            address: Address::left_padding_from(&[&[self.0], &number.to_be_bytes()[..]].concat()),
            symbol: format!("T{number}"),
            decimals: Some(6),
            amount: U256::from(1_000),
            icon: None,
        };
        Box::pin(std::future::ready(Ok((0..300).map(held).collect())))
    }
}

#[tokio::test]
async fn t_21_an_agent_receives_five_hundred_unverified_tokens_and_the_number_omitted() {
    let clock = Arc::new(ManualClock::new(Utc::from_seconds(NEW_YEAR_S)));
    let chain = Arc::new(Recorder { calls: Mutex::default(), clock: Arc::clone(&clock) });
    let networks = [(BASE, 1), (ChainId(4663), 2)];
    let chains = networks.map(|(id, _mark)| (id, Arc::clone(&chain) as Arc<dyn Chain>));
    let explorers =
        networks.map(|(id, mark)| (id, Arc::new(SpamExplorer(mark)) as Arc<dyn Explorer>));
    let engine = TestEngine::start(Setup {
        clock,
        chains: chains.into(),
        explorers: explorers.into(),
        ..Setup::default()
    })
    .await;
    engine.set_up_wallet("--day 10 --txn 10 --auto 5").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let (status, answer) = engine.post("/balances", &agent.read(engine.now_s())).await;
    assert_eq!(status, 200, "{answer}");
    let listed = answer["balances"].as_array().expect("a list").iter();
    let strangers = listed.filter(|entry| entry["verified"] == false).count();
    assert_eq!(strangers, 500);
    let why = answer["balances_error"].as_str().unwrap_or_default();
    assert!(why.contains("100 more unverified tokens are not listed."), "{why}");
}
