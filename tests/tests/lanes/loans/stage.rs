//! The scene of these tests: a local chain with vaults and a market, and an engine process with an open wallet, a
//! policy and an agent that lends.

use std::net::SocketAddr;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolCall;
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{ActivityRow, Answer, RequestAnswer};
use bursar_core::networks::ChainId;
use bursar_core::status::EntryKind;
use bursar_devnet::Devnet;
use bursar_devnet::full::{Contracts, lending_chain_or_skip};
use bursar_tests::agent::Agent;
use bursar_tests::offers::BASE;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::plan_kills::Scene;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const ROBINHOOD: ChainId = ChainId(4663);
pub(crate) const DOLLAR: u128 = 1_000_000;
/// Timeout of every wait; reached only on failure.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Supplies of up to 2,000 dollars each and 4,000 in all; automatic below 1,500.
pub(crate) const AUTOMATIC: &str =
    "--lending --lending-max 2000 --lending-total 4000 --lending-auto 1500";
/// The same limits, but every loan needs approval.
pub(crate) const MANUAL: &str = "--lending --lending-max 2000 --lending-total 4000";

alloy_sol_types::sol! {
    interface IVault {
        function previewRedeem(uint256 shares) external view returns (uint256);
        function balanceOf(address owner) external view returns (uint256);
    }

    interface IMorphoReads {
        function position(bytes32 id, address user)
            external view returns (uint256 supplyShares, uint128 borrowShares, uint128 collateral);
    }
}

pub(crate) struct Stage {
    pub(crate) chain: Devnet,
    pub(crate) contracts: Contracts,
    pub(crate) engine: EngineProcess,
    pub(crate) operator: Operator,
    pub(crate) agent: Agent,
    /// The address that the agent lends from.
    pub(crate) owner: Address,
    start: StartOptions,
    client: reqwest::Client,
    latest_agent_second: i64,
    /// Number of months that have passed.
    months_passed: i64,
    _home: TempDir,
}

impl Stage {
    /// Starts a chain and an engine, with ten thousand dollars and this policy for the agent. Returns `None` if
    /// tests with a chain are skipped.
    pub(crate) async fn on(id: ChainId, policy: &str) -> Option<Self> {
        let chain = lending_chain_or_skip(id).await?;
        let url = chain.url().to_owned();
        let rpc = (id == BASE).then(|| url.clone());
        let env = match id == ROBINHOOD {
            true => vec![("BURSAR_TEST_ROBINHOOD_RPC".into(), url)],
            false => Vec::new(),
        };
        let create = "address create lend 0 \"for tests\"";
        Some(Self::with_address(chain, (rpc, env), policy, create).await)
    }

    /// Like [`Self::on`] for Base, with an address of the simulated Ledger at the socket `at`.
    pub(crate) async fn with_device(policy: &str, at: SocketAddr) -> Option<Self> {
        let chain = lending_chain_or_skip(BASE).await?;
        let env = vec![("BURSAR_TEST_LEDGER".to_owned(), at.to_string())];
        let nodes = (Some(chain.url().to_owned()), env);
        Some(Self::with_address(chain, nodes, policy, "address ledger add 0 lend").await)
    }

    /// `create` is the command that creates the address `lend`.
    async fn with_address(
        chain: Devnet,
        (rpc, env): (Option<String>, Vec<(String, String)>),
        policy: &str,
        create: &str,
    ) -> Self {
        let id = chain.network().chain;
        let start = StartOptions { has_password: false, rpc, env, ..StartOptions::default() };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must(create).await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        let only = format!("--networks {}", id.0);
        operator.must(&format!("policy create p {policy} {only}")).await;
        let agent = register(&mut operator, "bot").await;
        // The server closes connections that stay idle, and a slow machine may take long between two calls.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let client = client.timeout(TIMEOUT).build();
        let ether = json!([owner, U256::from(10u128.pow(19))]);
        chain.request("anvil_setBalance", ether).await.expect("set");
        chain.mint(owner, 10_000 * DOLLAR).await.expect("minted");
        let stage = Self {
            contracts: Contracts::of(id).expect("a full chain"),
            chain,
            latest_agent_second: engine.now_s(),
            months_passed: 0,
            engine,
            operator,
            agent,
            owner,
            start,
            client: client.expect("a client"),
            _home: home,
        };
        stage.mine_blocks();
        stage
    }

    /// Starts to mine ten blocks a second, so that transactions become final.
    fn mine_blocks(&self) {
        let chain = self.chain.clone();
        tokio::spawn(async move {
            while chain.mine(1).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Lets a month pass, for the chain and the engine.
    pub(crate) async fn pass_month(&mut self) {
        self.chain.pass_month().await.expect("passed");
        self.months_passed += 1;
        self.engine.set_clock_offset(self.months_passed * 30 * 24 * 60 * 60 * 1_000);
    }

    /// Ends the engine like a crash and starts it again, with the password.
    pub(crate) async fn crash_and_restart(&mut self) {
        self.engine.kill();
        let start = StartOptions { has_password: true, ..self.start.clone() };
        self.engine = EngineProcess::start(&self.engine.folder, &start);
        self.operator = self.engine.operator().await;
    }

    /// Returns the parts of this scene that `Kills` needs.
    pub(crate) fn scene(&mut self) -> Scene<'_> {
        let start = StartOptions { has_password: true, ..self.start.clone() };
        Scene { engine: &mut self.engine, operator: &mut self.operator, start }
    }

    pub(crate) fn dollar(&self) -> Address {
        self.chain.network().stablecoin.address
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let reply = self.client.post(format!("{}{path}", self.engine.url)).json(body).send().await;
        let reply = reply.expect("an answer");
        (reply.status().as_u16(), reply.json().await.expect("JSON"))
    }

    /// Returns the body of a new request, of the first agent or of another one.
    pub(crate) fn request_body(&mut self, agent: Option<&Agent>, position: &Value) -> Value {
        self.latest_agent_second = (self.latest_agent_second + 1).max(self.engine.now_s());
        agent.unwrap_or(&self.agent).position(self.latest_agent_second, position)
    }

    /// Sends a request, in a second in which no agent has signed yet.
    pub(crate) async fn request_position(&mut self, position: &Value) -> (u16, Value) {
        let body = self.request_body(None, position);
        self.post("/position", &body).await
    }

    /// Registers a further agent with the same policy and address.
    pub(crate) async fn another_agent(&mut self, name: &str) -> Agent {
        register(&mut self.operator, name).await
    }

    /// Waits until the journal has booked `count` withdrawals by the operator.
    pub(crate) async fn await_booked(&mut self, count: usize) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let answer = self.operator.must("activity --raw").await;
            let Answer::Activity(activity) = answer else { panic!("{answer:?}") };
            let booked = |row: &&ActivityRow| row.kind == EntryKind::LoanWithdrawalBooked;
            if activity.entries.iter().filter(booked).count() >= count {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "not booked");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn mandate(&mut self) -> Value {
        let body = self.read_body();
        let (status, answer) = self.post("/mandate", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Returns the body of a new request that only reads.
    pub(crate) fn read_body(&mut self) -> Value {
        self.latest_agent_second = (self.latest_agent_second + 1).max(self.engine.now_s());
        self.agent.read(self.latest_agent_second)
    }

    pub(crate) async fn venues(&mut self) -> Value {
        self.latest_agent_second = (self.latest_agent_second + 1).max(self.engine.now_s());
        let chain = self.chain.network().chain.0;
        let body = self.agent.position(self.latest_agent_second, &json!({ "chain_id": chain }));
        let (status, answer) = self.post("/venues", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Returns a request about a vault or a market, without an amount.
    pub(crate) fn request(&self, action: &str, venue: &str) -> Value {
        let kind = if venue.len() == 42 { "vault" } else { "market" };
        let chain_id = self.chain.network().chain.0;
        json!({ "action": action, "venue": venue, "venue_kind": kind, "chain_id": chain_id })
    }

    /// Supplies whole dollars.
    pub(crate) async fn supply(&mut self, venue: &str, dollars: u128) -> (u16, Value) {
        let mut request = self.request("supply", venue);
        request["amount"] = json!(dollars.to_string());
        self.request_position(&request).await
    }

    pub(crate) async fn withdraw_all(&mut self, venue: &str) -> (u16, Value) {
        let mut request = self.request("withdraw", venue);
        request["withdraw_all"] = json!(true);
        self.request_position(&request).await
    }

    /// Returns the engine's counters.
    pub(crate) async fn counters(&self) -> Value {
        let reply = self.client.get(format!("{}/status", self.engine.url)).send().await;
        reply.expect("an answer").json().await.expect("JSON")
    }

    /// Returns the state of a request.
    pub(crate) async fn poll(&self, answer: &Value) -> Value {
        let id = answer["request_id"].as_str().expect("an id");
        let url = format!("{}/position/status/{id}", self.engine.url);
        let reply = self.client.get(url).send().await.expect("an answer");
        reply.json().await.expect("JSON")
    }

    /// Polls a request until it is over.
    pub(crate) async fn end_of(&self, answer: &Value) -> Value {
        let end = tokio::time::Instant::now() + TIMEOUT;
        loop {
            let answer = self.poll(answer).await;
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

    /// Returns whether no request is held.
    pub(crate) async fn is_idle(&mut self) -> bool {
        let answer = self.operator.must("requests").await;
        let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
        requests.is_empty()
    }

    pub(crate) async fn approve_held(&mut self) {
        let held = self.held().await;
        let card = held.card.expect("a card");
        let (id, digest, usd) = (held.id, card.digest, card.usd);
        let approve = format!("approve {id} --card {digest} --yes --confirm {usd}");
        self.operator.must(&approve).await;
    }

    pub(crate) async fn read<C: SolCall>(&self, to: Address, call: C) -> C::Return {
        self.chain.read(to, call).await.expect("an answer")
    }

    pub(crate) async fn dollars(&self) -> U256 {
        let owner = self.owner;
        self.read(self.dollar(), IErc20::balanceOfCall { owner }).await
    }

    pub(crate) async fn allowance(&self, spender: Address) -> U256 {
        let owner = self.owner;
        self.read(self.dollar(), IErc20::allowanceCall { owner, spender }).await
    }

    /// Waits until a contract's allowance is exactly this amount.
    pub(crate) async fn await_allowance(&self, spender: Address, amount: U256) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        while self.allowance(spender).await != amount {
            assert!(tokio::time::Instant::now() < end, "the allowance is another one");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn shares(&self, vault: Address) -> U256 {
        self.read(vault, IVault::balanceOfCall { owner: self.owner }).await
    }

    /// Returns the amount that the vault itself would pay now for all shares.
    pub(crate) async fn worth(&self, vault: Address) -> U256 {
        let shares = self.shares(vault).await;
        self.read(vault, IVault::previewRedeemCall { shares }).await
    }

    pub(crate) async fn market_shares(&self, id: B256) -> U256 {
        let asked = IMorphoReads::positionCall { id, user: self.owner };
        self.read(self.contracts.lending.morpho, asked).await.supplyShares
    }
}

/// Registers an agent that lends from the address under the policy.
async fn register(operator: &mut Operator, name: &str) -> Agent {
    let created = operator.outcome(&format!("agent register {name} --auth hmac")).await;
    let Ok(Answer::Credentials(given)) = created.reply.result else {
        panic!("{:?}", created.reply.result);
    };
    operator.must(&format!("agent commission {} p lend", given.agent_id)).await;
    let token = created.secret.expect("a token");
    Agent::new(given.agent_id, token, false)
}

/// Reads an amount in smallest units from an answer.
pub(crate) fn atoms(value: &Value) -> U256 {
    value.to_string().parse().unwrap_or_else(|_none| panic!("{value} is not an amount"))
}
