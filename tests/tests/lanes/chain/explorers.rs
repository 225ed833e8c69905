//! Explorers over HTTP: the data that they may add to an answer, and the effects that they must not have.
//!
//! This file also sets up the scene for hostile and failing explorers, which must not change
//! the balances from the chain.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener as StillListener;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use axum::Router;
use bursar_chain::explorer_http::{ExplorerHttp, ExplorerLimits};
use bursar_chain::ports::Explorer;
use bursar_control::answers::Answer;
use bursar_control::grammar::Order;
use bursar_core::codes::Code;
use bursar_core::networks::by_chain;
use bursar_tests::agent::Agent;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tui::link::Link;
use bursar_tui::oneshot::{self, ControllingTerminal, Options, Streams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::chain::lookups::{base_setup, fixed_balance_chain};

/// Part of the explorer's URL; must not appear in any answer.
pub(crate) const KEY: &str = "0123456789abcdef";

/// An engine with a chain of fixed balances and an explorer at `url`.
pub(crate) struct Scene {
    pub(crate) engine: TestEngine,
    agent: Agent,
}

impl Scene {
    pub(crate) async fn set_up(url: &str) -> Self {
        let limits = ExplorerLimits { timeout_ms: 400, ..ExplorerLimits::default() };
        let explorer = ExplorerHttp::new(url, limits).expect("an explorer");
        let explorers = BTreeMap::from([(BASE, Arc::new(explorer) as Arc<dyn Explorer>)]);
        let setup = Setup { explorers, ..base_setup(&Arc::new(fixed_balance_chain())) };
        let engine = TestEngine::start(setup).await;
        engine.set_up_wallet("--day 10 --txn 5 --networks 8453").await;
        engine.operator().must("network disable 4663").await;
        let agent = engine.add_agent("bot", "hmac").await;
        Self { engine, agent }
    }

    /// Returns the agent's answer to a fresh read: the value, and its bytes.
    pub(crate) async fn balances_answer(&self) -> (Value, Vec<u8>) {
        self.engine.clock.advance(2_000);
        let body = self.agent.read(self.engine.now_s()).to_string().into_bytes();
        let (status, bytes) = self.engine.raw("POST", "/balances", body).await;
        let answer = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        assert_eq!(status, 200, "{answer}");
        (answer, bytes)
    }

    /// Returns the exact output of `bursar balances`.
    pub(crate) async fn balances_output(&self) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let streams = Streams {
            out: &mut out,
            err: &mut err,
            stdin: Box::new(io::empty()),
            terminal: Arc::new(ControllingTerminal::default()),
            interrupt: Box::pin(std::future::pending()),
        };
        let options = Options { engine_running: true, ..Options::default() };
        let order = Order::parse_line("balances").expect("a command");
        let link = Link::over(self.engine.engine.attach());
        let exit = oneshot::run(link, order, &options, streams).await;
        assert_eq!((exit, &*String::from_utf8_lossy(&err)), (0, ""));
        String::from_utf8(out).expect("UTF-8")
    }
}

/// Asserts that the three balances from the chain are intact.
pub(crate) fn assert_chain_balances_intact(answer: &Value) {
    let ours = answer["balances"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let raw: Vec<&Value> = ours.iter().take(3).map(|entry| &entry["raw"]).collect();
    assert_eq!(raw, [&json!("7"), &json!("8"), &json!("9")], "{answer}");
    assert!(ours.iter().take(3).all(|entry| entry["verified"] == true));
}

/// Starts an explorer that answers every request with the latest text sent to it.
pub(crate) async fn start_explorer() -> (watch::Sender<String>, String) {
    let (give, given) = watch::channel("[]".to_owned());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/api/v2?apikey={KEY}", listener.local_addr().expect("an address"));
    let answer = move |uri: axum::http::Uri| {
        let body = given.borrow().clone();
        let asked = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let begins = asked.starts_with("/api/v2/addresses/0x");
        assert!(begins && asked.ends_with(&format!("/token-balances?apikey={KEY}")), "{asked}");
        async move { body }
    };
    let router = Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (give, url)
}

pub(crate) fn address(number: usize) -> Address {
    Address::left_padding_from(&(number + 0x1000).to_be_bytes())
}

pub(crate) fn token(number: usize, symbol: &str) -> Value {
    json!({
        "token": {
            "address_hash": address(number), "symbol": symbol, "name": symbol, "decimals": "6",
            "type": "ERC-20", "icon_url": null, "exchange_rate": "1.0",
        },
        "value": "1500000",
    })
}

pub(crate) fn token_list(symbols: &[String]) -> String {
    let tokens = symbols.iter().enumerate().map(|(number, symbol)| token(number, symbol));
    Value::from(tokens.collect::<Vec<_>>()).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explorer_adds_tokens_that_are_marked_and_worth_nothing() {
    let (give, url) = start_explorer().await;
    let scene = Scene::set_up(&url).await;
    let coin = by_chain(BASE).expect("a network").stablecoin.address;
    let mut known = token(0, "USDC");
    known["token"]["address_hash"] = json!(coin);
    let mut bare = token(2, "ODD");
    bare["token"]["decimals"] = Value::Null;
    give.send_replace(json!([known, token(1, "USDC"), bare]).to_string());
    let (answer, _bytes) = scene.balances_answer().await;
    assert_chain_balances_intact(&answer);
    let strangers = &answer["balances"].as_array().expect("a list")[3..];
    let entry = |number: usize, symbol: &str, decimals: Value, formatted: Value| {
        json!({
            "symbol": symbol, "token_address": address(number).to_checksum(None),
            "decimals": decimals, "raw": "1500000", "formatted": formatted, "is_native": false,
            "usd_value": null, "network": "eip155:8453", "verified": false,
        })
    };
    let wanted =
        [entry(1, "USDC", json!(6), json!(1.5)), entry(2, "ODD", Value::Null, Value::Null)];
    assert_eq!(strangers, wanted);
    assert_eq!(answer.get("balances_error"), None);

    let Answer::Balances { addresses } = scene.engine.operator().must("balances").await else {
        panic!("balances");
    };
    let held = &addresses[0].networks[0].balances;
    let named: Vec<(&str, bool, Option<&str>)> =
        held.iter().map(|h| (&*h.symbol, h.verified, h.usd.as_deref())).collect();
    let wanted = [
        ("ETH", true, None),
        ("USDC", true, Some("0.000008")),
        ("WETH", true, None),
        ("USDC", false, None),
        ("ODD", false, None),
    ];
    assert_eq!(named, wanted);
}

/// A listener that must not receive a connection.
pub(crate) struct UncalledServer(StillListener);

impl UncalledServer {
    pub(crate) fn new() -> Self {
        let listener = StillListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        Self(listener)
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}/icon.png", self.0.local_addr().expect("an address"))
    }

    pub(crate) fn assert_untouched(&self) {
        let called = self.0.accept().map(|(_stream, peer)| peer);
        assert!(
            matches!(&called, Err(error) if error.kind() == io::ErrorKind::WouldBlock),
            "{called:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t_21_pictures_that_an_explorer_names_are_not_fetched() {
    let (give, url) = start_explorer().await;
    let scene = Scene::set_up(&url).await;
    let uncalled = UncalledServer::new();
    let mut dollar = token(2, "USDC");
    dollar["token"]["address_hash"] = json!(by_chain(BASE).expect("a network").stablecoin.address);
    let baits = [token(1, "ICON"), dollar].map(|mut baited| {
        for field in ["icon_url", "name", "exchange_rate", "reputation", "next_page_params", "url"]
        {
            baited["token"][field] = json!(uncalled.url());
            baited[field] = json!(uncalled.url());
        }
        baited
    });
    give.send_replace(json!(baits).to_string());
    let (answer, _bytes) = scene.balances_answer().await;
    assert_eq!(answer["balances"][3]["symbol"], "ICON", "{answer}");
    scene.balances_output().await;
    // With icons, only the known token's URL counts, and it is not one of a public server.
    let mut operator = scene.engine.operator();
    assert_eq!(operator.run_refused("icons").await.code, Code::BadInput);
    operator.must("config set icons true").await;
    let icons = loop {
        let Answer::Icons(icons) = operator.must("icons").await else { panic!("icons") };
        if icons.running == 0 {
            break icons.icons;
        }
    };
    assert!(icons.is_empty(), "{icons:?}");
    // A symbol that is a URL is not fetched either.
    give.send_replace(token_list(&[uncalled.url()]));
    scene.balances_answer().await;
    scene.balances_output().await;
    uncalled.assert_untouched();
}

/// More tokens than fit into one frame of the control channel, each with the longest fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsolicited_tokens_are_listed_within_bounds() {
    let (give, url) = start_explorer().await;
    let scene = Scene::set_up(&url).await;
    let mut tokens = Vec::new();
    for number in 0..2_000 {
        let mut one = token(number, &"\u{e0041}".repeat(64));
        one["value"] = json!(U256::MAX.to_string());
        one["token"]["decimals"] = json!("77");
        tokens.push(one);
    }
    give.send_replace(Value::from(tokens).to_string());
    let (answer, _bytes) = scene.balances_answer().await;
    assert_chain_balances_intact(&answer);
    assert_eq!(answer["balances"].as_array().map(Vec::len), Some(3 + 500));
    let why = "eip155:8453: The explorer lists more tokens than Bursar reads: some may be missing.";
    assert_eq!(answer["balances_error"], why);
    for index in 1..4 {
        let line = format!("address create pay{index} {index}");
        scene.engine.operator().must(&line).await;
    }
    let shown = scene.balances_output().await;
    assert_eq!(shown.matches("unverified 0x").count(), 500);
    assert!(shown.contains("Base: 500 more tokens are not shown: choose one address and network."));
}
