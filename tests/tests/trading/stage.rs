//! The scene of these tests: a full local chain, and an engine process with an open wallet, a policy and an agent.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{Answer, RequestAnswer};
use bursar_core::networks::by_chain;
use bursar_devnet::full::{Contracts, full_chain_or_skip};
use bursar_devnet::{Call, Devnet};
use bursar_tests::agent::Agent;
use bursar_tests::offers::{BASE, header};
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, Start};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Timeout of every wait; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const ETHER: u128 = 1_000_000_000_000_000_000;
pub(crate) const DOLLAR: u128 = 1_000_000;

/// The initial balances of the paying address.
pub(crate) const INITIAL_DOLLARS: u128 = 10_000 * DOLLAR;
pub(crate) const INITIAL_ETHER: u128 = 10 * ETHER;

alloy_sol_types::sol! {
    /// The wrapped coin.
    interface IWeth {
        function deposit() external payable;
    }

    interface IPermit2 {
        function allowance(address user, address token, address spender)
            external view returns (uint160 amount, uint48 expiration, uint48 nonce);
    }
}

pub(crate) struct Stage {
    pub(crate) chain: Devnet,
    pub(crate) contracts: Contracts,
    pub(crate) engine: EngineProcess,
    pub(crate) operator: Operator,
    pub(crate) agent: Agent,
    /// The address that the agent trades from.
    pub(crate) owner: Address,
    start: Start,
    client: reqwest::Client,
    stamp: i64,
    _home: TempDir,
}

impl Stage {
    /// Starts a chain and an engine; `None` if tests with a chain are skipped. `policy` are the options of the agent's
    /// policy.
    pub(crate) async fn set_up(policy: &str) -> Option<Self> {
        let chain = full_chain_or_skip(BASE).await?;
        let contracts = Contracts::of(BASE).expect("a full chain");
        let start = Start {
            unlock: false,
            rpc: Some(chain.url().to_owned()),
            env: vec![("BURSAR_TEST_ETH_PRICE".into(), "3000".into())],
            ..Start::default()
        };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must("address create trade 0 \"for tests\"").await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        operator.must(&format!("policy create p {policy}")).await;
        let created = operator.outcome("agent register bot --auth hmac").await;
        let Ok(Answer::Credentials(given)) = created.reply.result else {
            panic!("{:?}", created.reply.result);
        };
        operator.must(&format!("agent commission {} p trade", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let agent = Agent { id: given.agent_id, token, bearer: false };
        let ether = U256::from(2 * INITIAL_ETHER);
        chain.request("anvil_setBalance", json!([owner, ether])).await.expect("set");
        chain.mint(owner, INITIAL_DOLLARS).await.expect("minted");
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build();
        let mut stage = Self {
            chain,
            contracts,
            engine,
            operator,
            agent,
            owner,
            start,
            client: client.expect("a client"),
            stamp: 0,
            _home: home,
        };
        let wrap = Call::new(owner, stage.contracts.weth, &IWeth::depositCall {});
        let wrap = wrap.with_value(U256::from(INITIAL_ETHER));
        stage.chain.send_as(&wrap).await.expect("wrapped");
        let ether = U256::from(INITIAL_ETHER);
        stage.chain.request("anvil_setBalance", json!([owner, ether])).await.expect("set");
        stage.stamp = stage.engine.now_s();
        stage.mine_blocks();
        Some(stage)
    }

    /// Mines a block ten times a second from now on: transactions become final.
    fn mine_blocks(&self) {
        let chain = self.chain.clone();
        tokio::spawn(async move {
            while chain.mine(1).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Ends the engine like a crash and starts it again, with the password.
    pub(crate) async fn crash_and_restart(&mut self) {
        let start = Start { unlock: true, ..self.start.clone() };
        self.engine.kill();
        self.engine = EngineProcess::start(&self.engine.folder, &start);
        self.operator = self.engine.operator().await;
    }

    pub(crate) fn dollar(&self) -> Address {
        by_chain(BASE).expect("a network").stablecoin.address
    }

    /// Asks for a trade, in a second in which no agent has signed yet.
    pub(crate) async fn trade(&mut self, trade: &Value) -> (u16, Value) {
        self.stamp += 1;
        let body = self.agent.trade(self.stamp, trade);
        self.post("/trade", &body).await
    }

    /// Asks for a payment, in a second in which no agent has signed yet.
    pub(crate) async fn pay(&mut self, challenge: &Value) -> (u16, Value) {
        self.stamp += 1;
        let body = self.agent.ask(self.stamp, &header(challenge), None);
        self.post("/sign", &body).await
    }

    /// Lets so many seconds pass, for the chain and the engine.
    pub(crate) async fn pass(&mut self, seconds: i64) {
        self.chain.request("evm_increaseTime", json!([seconds])).await.expect("set");
        self.chain.mine(1).await.expect("mined");
        self.engine.skew(seconds * 1_000);
        self.stamp += seconds;
    }

    /// Reports that a payment settled in this transaction.
    pub(crate) async fn report_settled(&mut self, id: &str, tx_hash: &str) {
        self.stamp += 1;
        let body = self.agent.report(self.stamp, id, "settled", Some(tx_hash));
        let (status, answer) = self.post("/callback", &body).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Returns the status of a payment once the engine has looked for its settlement.
    pub(crate) async fn settlement_of(&self, id: &str) -> String {
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let (_status, receipt) = self.get(&format!("/receipt/{id}")).await;
            let status = receipt["status"].as_str().expect("a status");
            if status != "payment-submitted" {
                return status.to_owned();
            }
            assert!(tokio::time::Instant::now() < end, "{receipt}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends the newest trade request again.
    pub(crate) async fn repeat(&self, trade: &Value) -> (u16, Value) {
        self.post("/trade", &self.agent.trade(self.stamp, trade)).await
    }

    pub(crate) async fn mandate(&mut self) -> (u16, Value) {
        self.stamp += 1;
        let action = json!({"action": "agent_read"});
        let fields = action.as_object().expect("an object");
        let signature = self.agent.sign(self.stamp, fields);
        let body = json!({"agent_id": self.agent.id, "signature": signature});
        self.post("/mandate", &body).await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let reply = self.client.get(format!("{}{path}", self.engine.url)).send();
        let reply = reply.await.expect("an answer");
        (reply.status().as_u16(), reply.json().await.expect("JSON"))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let reply = self.client.post(format!("{}{path}", self.engine.url)).json(body).send();
        let reply = reply.await.expect("an answer");
        (reply.status().as_u16(), reply.json().await.expect("JSON"))
    }

    pub(crate) async fn poll(&self, id: &Value) -> (u16, Value) {
        let id = id.as_str().expect("an id");
        self.get(&format!("/trade/status/{id}")).await
    }

    /// Polls a trade until it is over.
    pub(crate) async fn end_of(&self, id: &Value) -> Value {
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let (_status, answer) = self.poll(id).await;
            if answer["status"] != "executing" && answer["status"] != "pending" {
                return answer;
            }
            assert!(tokio::time::Instant::now() < end, "{answer}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the only held request.
    pub(crate) async fn held(&mut self) -> RequestAnswer {
        let answer = self.operator.must("requests").await;
        let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
        let [only]: [RequestAnswer; 1] = requests.try_into().expect("one request");
        only
    }

    /// Returns the owner's balance of a token; of the native coin for the zero address.
    pub(crate) async fn balance(&self, token: Address) -> U256 {
        if token == Address::ZERO {
            let found = self.chain.request("eth_getBalance", json!([self.owner, "latest"])).await;
            return serde_json::from_value(found.expect("a balance")).expect("a number");
        }
        let owner = self.owner;
        self.chain.read(token, IErc20::balanceOfCall { owner }).await.expect("a balance")
    }

    pub(crate) async fn allowance(&self, token: Address, spender: Address) -> U256 {
        let owner = self.owner;
        let asked = IErc20::allowanceCall { owner, spender };
        self.chain.read(token, asked).await.expect("an allowance")
    }

    /// Returns what Permit2 lets a spender take of a token, and the nonce of the next permit.
    pub(crate) async fn permit2_allowance(&self, token: Address, spender: Address) -> (U256, u64) {
        let asked = IPermit2::allowanceCall { user: self.owner, token, spender };
        let found = self.chain.read(self.contracts.permit2, asked).await.expect("an allowance");
        (U256::from(found.amount), found.nonce.to())
    }

    /// Returns what gas the owner has paid for its transactions so far, in wei.
    pub(crate) async fn gas_of(&self, answer: &Value) -> U256 {
        let mut sum = U256::ZERO;
        for key in ["tx_hash", "approval_tx_hash"] {
            let Some(hash) = answer[key].as_str() else { continue };
            let receipt = self.chain.request("eth_getTransactionReceipt", json!([hash])).await;
            let receipt = receipt.expect("a receipt");
            let number = |name: &str| -> U256 {
                serde_json::from_value(receipt[name].clone()).expect("a number")
            };
            sum += number("gasUsed") * number("effectiveGasPrice");
        }
        sum
    }
}

/// Reads an amount in smallest units from an answer.
pub(crate) fn atoms(value: &Value) -> U256 {
    value.to_string().parse().unwrap_or_else(|_none| panic!("{value} is not an amount"))
}
