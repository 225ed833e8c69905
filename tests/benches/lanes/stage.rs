//! The scene of the benches: a full local chain behind a far node, and an engine process with an agent.

use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256};
use bursar_control::answers::Answer;
use bursar_devnet::Devnet;
use bursar_tests::agent::Agent;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::far_node::{self, FarNode};
use crate::figures::Figures;

const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Stage {
    pub chain: Devnet,
    pub node: FarNode,
    pub engine: EngineProcess,
    pub agent: Agent,
    /// Delay of a round trip to the node.
    node_delay: Duration,
    client: reqwest::Client,
    _home: TempDir,
}

impl Stage {
    /// Starts the scene on a chain, with this policy for the agent.
    ///
    /// Also returns an operator, and the agent's address, which owns ETH.
    pub async fn on(chain: Devnet, policy: &str, away: Duration) -> (Self, Operator, Address) {
        let node = FarNode::start(chain.url(), away).await;
        Self::with_node(node, chain, policy, away).await
    }

    /// Like [`Stage::on`], but with a node that has already been started.
    pub async fn with_node(
        node: FarNode,
        chain: Devnet,
        policy: &str,
        away: Duration,
    ) -> (Self, Operator, Address) {
        let start = StartOptions {
            rpc: Some(node.url.clone()),
            env: vec![("BURSAR_TEST_ETH_PRICE".into(), "3000".into())],
            ..StartOptions::default()
        };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must("address create trade 0").await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        operator.must(&format!("policy create p {policy}")).await;
        let created = operator.outcome("agent register bench --auth hmac").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else { panic!("credentials") };
        operator.must(&format!("agent commission {} p trade", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let agent = Agent::new(given.agent_id, token, false);
        let ether = U256::from(10u128.pow(21));
        chain.request("anvil_setBalance", json!([owner, ether])).await.expect("set");
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build();
        let client = client.expect("a client");
        (
            Self { chain, node, engine, agent, node_delay: away, client, _home: home },
            operator,
            owner,
        )
    }

    /// Starts to mine ten blocks a second.
    pub fn mine_blocks(&self) {
        let chain = self.chain.clone();
        tokio::spawn(async move {
            while chain.mine(1).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Makes a call, and adds its time and its round trips to `figures`.
    pub async fn measure(&self, path: &str, body: &Value, figures: &mut Figures) -> Value {
        self.node.take_calls();
        let begun = Instant::now();
        let answer = self.post(path, body).await;
        figures.times.push(begun.elapsed());
        figures.trips.push(far_node::sequential_trips(&self.node.take_calls()));
        answer
    }

    /// Makes a call that is executed, and adds time and round trips up to the broadcast of its first transaction.
    pub async fn measure_broadcast(&self, path: &str, body: &Value, figures: &mut Figures) {
        self.node.take_calls();
        let begun = Instant::now();
        let (answer, sent) =
            tokio::join!(self.post(path, body), self.node.wait_for_call("eth_sendRawTransaction"));
        assert_eq!(answer["status"], "executed", "{answer}");
        figures.times.push(sent.arrived.duration_since(begun) + self.node_delay);
        let mut calls = self.node.take_calls();
        calls.retain(|call| call.arrived <= sent.arrived);
        figures.trips.push(far_node::sequential_trips(&calls));
    }

    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let reply = self.client.post(format!("{}{path}", self.engine.url)).json(body).send().await;
        reply.expect("an answer").json().await.expect("JSON")
    }
}
