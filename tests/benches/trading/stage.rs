//! The scene of the bench: a full local chain behind a far node, and an engine process with an agent that trades.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_control::answers::Answer;
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::agent::Agent;
use bursar_tests::offers::BASE;
use bursar_tests::operator::Expect;
use bursar_tests::process::{EngineProcess, Start};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::FarNode;

const TIMEOUT: Duration = Duration::from_secs(120);

const POLICY: &str = "--day 1000000 --txn 10 --auto 5 --trading --trade-daily 100000 --trade-max 500 --trade-auto 200";

pub struct Stage {
    pub chain: Devnet,
    pub node: FarNode,
    pub engine: EngineProcess,
    pub agent: Agent,
    client: reqwest::Client,
    _home: TempDir,
}

impl Stage {
    /// Starts the scene; `None` if tests with a chain are skipped.
    pub async fn set_up(away: Duration) -> Option<Self> {
        let chain = full_chain_or_skip(BASE).await?;
        let node = FarNode::start(chain.url(), away).await;
        let start = Start {
            rpc: Some(node.url.clone()),
            env: vec![("BURSAR_TEST_ETH_PRICE".into(), "3000".into())],
            ..Start::default()
        };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must("address create trade 0").await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        operator.must(&format!("policy create p {POLICY}")).await;
        let created = operator.outcome("agent register bench --auth hmac").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else { panic!("credentials") };
        operator.must(&format!("agent commission {} p trade", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let agent = Agent { id: given.agent_id, token, bearer: false };
        let ether = U256::from(10u128.pow(21));
        chain.request("anvil_setBalance", json!([owner, ether])).await.expect("set");
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build();
        Some(Self { chain, node, engine, agent, client: client.expect("a client"), _home: home })
    }

    /// Mines a block ten times a second from now on.
    pub fn mine_blocks(&self) {
        let chain = self.chain.clone();
        tokio::spawn(async move {
            while chain.mine(1).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Returns a request that sells about this many dollars of ETH, different for each `at`.
    pub fn swap(&self, dollars: &str, at: usize) -> Value {
        let dollars: f64 = dollars.parse().expect("a number");
        let amount = format!("{:.12}", dollars / 3_000.0 + at as f64 * 1e-12);
        let token_out =
            bursar_core::networks::by_chain(BASE).expect("a network").stablecoin.address;
        let trade = json!({
            "chain_id": 8453, "token_in": "ETH", "token_out": token_out, "amount_in": amount,
            "fee_tier": 500, "max_slippage_bps": 100,
        });
        self.agent.trade(self.engine.now_s(), &trade)
    }

    /// Returns the address of the agent server, with its port.
    pub fn address(&self) -> &str {
        self.engine.url.trim_start_matches("http://")
    }

    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.client.post(format!("{}{path}", self.engine.url)).json(body).send().await;
        reply.expect("an answer").json().await.expect("JSON")
    }
}
