//! Balances of an address on a local chain: exact to the last unit, read by one call, and never zero when no node
//! answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, U256};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use bursar_chain::ports::Chain;
use bursar_chain::rpc::{RpcChain, RpcConfig};
use bursar_control::answers::{Answer, BalanceAnswer, NetworkHoldingsAnswer};
use bursar_core::codes::Code;
use bursar_core::networks::{ChainId, MULTICALL3, Network, by_chain};
use bursar_devnet::Devnet;
use bursar_tests::agent::Agent;
use bursar_tests::caller::AgentClient;
use bursar_tests::engine::{Setup, TestEngine};
use bursar_tests::offers::BASE;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::StartOptions;
use serde_json::{Value, json};

use crate::chain::stage::{SMALL_PRICE, Stage, local_chain};

const BASE_SEPOLIA: ChainId = ChainId(84532);
const NO_ANSWER: &str = "No endpoint of the network gave a valid answer.";
/// Returns the operator's error for a network without an answer; it names the endpoint.
fn no_answer(network: &str, host: &str) -> String {
    format!("No endpoint of {network} gave a valid answer (asked https://{host}:443).")
}

/// Part of every endpoint's URL; must not appear in any answer.
const KEY: &str = "0123456789abcdef";

fn base() -> &'static Network {
    by_chain(BASE).expect("a network")
}

/// Forwards calls to a chain, and records the method and the call's target.
#[derive(Debug, Clone)]
struct CallRecorder {
    chain: Devnet,
    calls_seen: Arc<Mutex<Vec<String>>>,
}

impl CallRecorder {
    /// Starts the recorder; also returns its URL.
    async fn start_in_front_of(chain: &Devnet) -> (Self, String) {
        let recorder = Self { chain: chain.clone(), calls_seen: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/{KEY}", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(record_and_forward).with_state(recorder.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (recorder, url)
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls_seen.lock().unwrap())
    }
}

async fn record_and_forward(State(recorder): State<CallRecorder>, body: Bytes) -> String {
    let call: Value = serde_json::from_slice(&body).expect("JSON");
    let method = call["method"].as_str().expect("a method");
    let to = call["params"][0]["to"].as_str().unwrap_or_default();
    // The engine also reads blocks and events in the background.
    if ["eth_call", "eth_getBalance"].contains(&method) {
        recorder.calls_seen.lock().unwrap().push(format!("{method} {to}").trim_end().to_owned());
    }
    let result = recorder.chain.request(method, call["params"].clone()).await.expect("an answer");
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }).to_string()
}

/// Returns the agent's whole answer.
async fn balances_answer(stage: &Stage, agent: &Agent) -> String {
    let body = agent.read(jiff::Timestamp::now().as_second());
    let caller = AgentClient::for_url(&stage.engine.url);
    let (status, bytes) = caller.post("/balances", &body).await.expect("an answer");
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert_eq!(status, 200, "{text}");
    text
}

/// The exact answer expected about Base; amounts are pairs of raw and formatted.
fn expected_answer(payer: Address, [native, usdc, weth]: [(&str, &str); 3]) -> String {
    let (coin, other) = (base().stablecoin.address, base().tokens[0].address);
    let entry = |symbol: &str, token: Option<Address>, decimals: u8, amount: (&str, &str), usd| {
        let (raw, formatted) = amount;
        let native = token.is_none();
        let token = token.map_or("null".to_owned(), |token| format!("\"{token}\""));
        format!(
            "{{\"symbol\":\"{symbol}\",\"token_address\":{token},\"decimals\":{decimals},\
             \"raw\":\"{raw}\",\"formatted\":{formatted},\"is_native\":{native},\
             \"usd_value\":{usd},\"network\":\"eip155:8453\",\"verified\":true}}"
        )
    };
    format!(
        "{{\"status\":\"ok\",\"wallet_address\":\"{payer}\",\"wallet_id\":\"pay\",\
         \"balances\":[{},{},{}]}}",
        entry("ETH", None, 18, native, "null"),
        entry("USDC", Some(coin), 6, usdc, usdc.1),
        entry("WETH", Some(other), 18, weth, "null"),
    )
}

async fn give_native(chain: &Devnet, to: Address, wei: u64) {
    let amount = format!("{:#x}", U256::from(wei));
    chain.request("anvil_setBalance", json!([to, amount])).await.expect("set");
}

/// Advances the clock past the cached balances.
fn expire_balance_cache(stage: &Stage, skew_ms: &mut i64) {
    *skew_ms += 2_000;
    stage.engine.set_clock_offset(*skew_ms);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_are_exact_before_and_after_a_payment() {
    let Some(chain) = local_chain(BASE).await else { return };
    let (recorder, url) = CallRecorder::start_in_front_of(&chain).await;
    let mut stage =
        Stage::set_up(chain.clone(), StartOptions { rpc: Some(url), ..StartOptions::default() })
            .await;
    stage.operator.must("network disable 4663").await;
    let agent = stage.add_agent("bot", "hmac").await;
    give_native(&chain, stage.payer, 1_000_000_000_000_000_001).await;
    recorder.take_calls();

    let one = ("1000000000000000001", "1.000000000000000001");
    let before = expected_answer(stage.payer, [one, ("20000000", "20"), ("0", "0")]);
    assert_eq!(balances_answer(&stage, &agent).await, before);
    // All balances come from one call, and so from one block.
    assert_eq!(recorder.take_calls(), [format!("eth_call {MULTICALL3:#x}")]);

    let body = stage.ask_for(&agent, "/small").await;
    let (_status, answer) = stage.ask(&body).await;
    assert_eq!(stage.request_with_payment(&stage.url("/small"), &answer).await.0, 200);
    stage.latest_settlement(SMALL_PRICE).await;
    let mut skew = 0;
    expire_balance_cache(&stage, &mut skew);
    let after = expected_answer(stage.payer, [one, ("19988000", "19.988"), ("0", "0")]);
    assert_eq!(balances_answer(&stage, &agent).await, after);

    // Without the multicall contract the engine reads each balance in a separate call; the answer is the same.
    chain.request("anvil_setCode", json!([MULTICALL3, "0x"])).await.expect("set");
    expire_balance_cache(&stage, &mut skew);
    recorder.take_calls();
    assert_eq!(balances_answer(&stage, &agent).await, after);
    let call = |to: Address| format!("eth_call {to:#x}");
    let (coin, weth) = (base().stablecoin.address, base().tokens[0].address);
    let alone = [call(MULTICALL3), "eth_getBalance".to_owned(), call(coin), call(weth)];
    assert_eq!(recorder.take_calls(), alone);

    // The balance of a missing token is unknown, not zero; the other balances are unchanged.
    chain.request("anvil_setCode", json!([weth, "0x"])).await.expect("set");
    expire_balance_cache(&stage, &mut skew);
    let reply: Value = serde_json::from_str(&balances_answer(&stage, &agent).await).expect("JSON");
    let [native, usdc, gone] = &reply["balances"].as_array().expect("a list")[..] else {
        panic!("{reply}");
    };
    assert_eq!((&native["raw"], &usdc["raw"]), (&json!(one.0), &json!("19988000")));
    assert_eq!((&gone["symbol"], &gone["raw"]), (&json!("WETH"), &Value::Null));
    assert_eq!(gone["error"], "The token's contract gave no valid balance.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_gives_null_and_an_error_without_its_url() {
    let Some(chain) = local_chain(BASE).await else { return };
    let url = format!("{}/?key={KEY}", chain.url());
    let mut stage =
        Stage::set_up(chain.clone(), StartOptions { rpc: Some(url), ..StartOptions::default() })
            .await;
    stage.operator.must("network disable 4663").await;
    let agent = stage.add_agent("bot", "bearer").await;
    let body = |balances: &str| {
        format!(
            "{{\"status\":\"ok\",\"wallet_address\":\"{}\",\"wallet_id\":\"pay\",{balances}}}",
            stage.payer
        )
    };
    let dead = body(&format!("\"balances\":null,\"balances_error\":\"eip155:8453: {NO_ANSWER}\""));
    let alive = balances_answer(&stage, &agent).await;
    assert!(!alive.contains("error") && alive.contains("\"raw\":\"20000000\""), "{alive}");
    chain.kill();
    expire_balance_cache(&stage, &mut 0);
    assert_eq!(balances_answer(&stage, &agent).await, dead);
    for line in ["balances", "address balance pay", "balances --network base"] {
        let fault = stage.operator.run_refused(line).await;
        assert_eq!((fault.code, fault.code.exit()), (Code::ChainUnavailable, 11));
        let asked = "No balance could be read. No endpoint of Base gave a valid answer (asked http://127.0.0.1:";
        assert!(fault.message.starts_with(asked) && !fault.message.contains(KEY), "{fault}");
    }
}

fn rpc(network: ChainId, url: &str, setup: &Setup) -> (ChainId, Arc<dyn Chain>) {
    let config = RpcConfig::new(network, [format!("{url}/?key={KEY}")]);
    let chain = RpcChain::new(config, Arc::clone(&setup.clock) as _).expect("an endpoint");
    (network, Arc::new(chain))
}

async fn holdings(operator: &mut Operator, line: &str) -> Vec<NetworkHoldingsAnswer> {
    let Answer::Balances { mut addresses } = operator.must(line).await else { panic!("{line}") };
    assert_eq!((addresses.len(), &*addresses[0].label), (1, "pay"), "{line}");
    addresses.remove(0).networks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balances_of_a_live_network_are_returned_next_to_a_dead_one() {
    let Some(alive) = local_chain(BASE).await else { return };
    let Some(dead) = local_chain(BASE_SEPOLIA).await else { return };
    let mut setup = Setup::default();
    let both = [(BASE, &alive), (BASE_SEPOLIA, &dead)];
    setup.chains = both.iter().map(|(id, chain)| rpc(*id, chain.url(), &setup)).collect();
    let engine = TestEngine::start(setup).await;
    engine.set_up_wallet("--day 10 --txn 5").await;
    let mut operator = engine.operator();
    operator.must("network disable 4663").await;
    operator.must("network enable 84532").await;
    let agent = engine.add_agent("bot", "hmac").await;
    dead.kill();

    let (status, answer) = engine.post("/balances", &agent.read(engine.now_s())).await;
    assert_eq!(status, 200, "{answer}");
    let entries: Vec<(&str, &str, bool, &Value)> = answer["balances"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"))
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().expect("text");
            let known = entry["raw"].is_string() && entry["formatted"].is_number();
            assert_eq!(known, entry.get("error").is_none(), "{entry}");
            (text("network"), text("symbol"), known, &entry["error"])
        })
        .collect();
    let why = json!(NO_ANSWER);
    let wanted = [
        ("eip155:8453", "ETH", true, &Value::Null),
        ("eip155:84532", "ETH", false, &why),
        ("eip155:8453", "USDC", true, &Value::Null),
        ("eip155:8453", "WETH", true, &Value::Null),
        ("eip155:84532", "USDC", false, &why),
    ];
    assert_eq!(entries, wanted, "native coins first");
    assert_eq!(answer["balances_error"], format!("eip155:84532: {NO_ANSWER}"));
    assert!(!answer.to_string().contains(KEY) && !answer.to_string().contains("127.0.0.1"));

    let networks = holdings(&mut operator, "balances").await;
    assert_eq!(networks.len(), 2);
    let sepolia = no_answer("Base Sepolia", "sepolia.base.org");
    let unknown = |held: &BalanceAnswer| {
        let reason = held.amount_unknown_reason.as_deref() == Some(sepolia.as_str());
        assert_eq!(held.amount.is_none(), reason, "{held:?}");
        reason
    };
    assert!(!networks[0].balances.iter().any(unknown) && networks[0].error.is_none());
    assert!(networks[1].balances.iter().all(unknown));
    assert_eq!(networks[1].error.as_deref(), Some(sepolia.as_str()));
    assert_eq!(holdings(&mut operator, "address balance pay --network 8453").await, networks[..1]);

    // The dead network is the only one named, so no balance is known.
    let fault = operator.run_refused("address balance pay --network base-sepolia").await;
    assert_eq!(fault.code, Code::ChainUnavailable);
    // A disabled network is read if the operator names it, but never for an agent.
    let fault = operator.run_refused("balances --network 4663").await;
    assert_eq!(
        fault.message,
        "No balance could be read. No endpoint is set for Robinhood Chain: `network rpc 4663 <url>`."
    );
    for (line, code) in [
        ("balances --network nowhere", Code::NothingFound),
        ("balances --address nobody", Code::NothingFound),
    ] {
        assert_eq!(operator.run_refused(line).await.code, code, "{line}");
    }
}

/// Networks outside the policy are not read, and nothing is read before the proof is checked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_networks_that_the_policy_allows_are_read() {
    let setup = Setup { chains: BTreeMap::new(), ..Setup::default() };
    let engine = TestEngine::start(setup).await;
    engine.set_up_wallet("--day 10 --txn 5 --networks 8453").await;
    let agent = engine.add_agent("bot", "hmac").await;
    let (_status, answer) = engine.post("/balances", &agent.read(engine.now_s())).await;
    let why = "eip155:8453: No endpoint is set for this network.";
    assert_eq!((&answer["balances"], &answer["balances_error"]), (&Value::Null, &json!(why)));
    engine.operator().must("network disable 8453").await;
    let (_status, answer) = engine.post("/balances", &agent.read(engine.now_s())).await;
    assert_eq!((&answer["balances"], answer.get("balances_error")), (&json!([]), None));

    let mut forged = agent.read(engine.now_s());
    forged["signature"] = json!(format!("SIG:{}:{}", engine.now_s(), "0".repeat(64)));
    assert_eq!(engine.post("/balances", &forged).await.0, 401);
    assert_eq!(engine.get("/balances").await.0, 405);
    engine.operator().must("agent suspend bot").await;
    assert_eq!(engine.post("/balances", &agent.read(engine.now_s())).await.0, 403);
}
