//! The scene of these tests: a full local chain, and an engine process with an open wallet, a policy and an agent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_chain::abi::erc20::IErc20;
use bursar_control::answers::{ActivityRow, Answer, RequestAnswer};
use bursar_core::card::Card;
use bursar_core::networks::ChainId;
use bursar_core::status::EntryKind;
use bursar_devnet::full::{Contracts, full_chain_or_skip};
use bursar_devnet::{Call, Devnet};
use bursar_tests::agent::Agent;
use bursar_tests::offers::{BASE, header};
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::plan_kills::Scene;
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// Timeout of every wait; reached only on failure.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const ETHER: u128 = 1_000_000_000_000_000_000;
pub(crate) const DOLLAR: u128 = 1_000_000;

/// The initial balances of the paying address.
pub(crate) const INITIAL_DOLLARS: u128 = 10_000 * DOLLAR;
pub(crate) const INITIAL_ETHER: u128 = 10 * ETHER;

alloy_sol_types::sol! {
    /// The token contract of the wrapped native coin.
    interface IWeth {
        function deposit() external payable;
    }

    interface IPermit2 {
        function allowance(address user, address token, address spender)
            external view returns (uint160 amount, uint48 expiration, uint48 nonce);
    }
}

/// A client for the agent server of one engine.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        answer_of(self.http.get(format!("{}{path}", self.url))).await.expect("an answer")
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let asking = self.http.post(format!("{}{path}", self.url)).json(body);
        answer_of(asking).await.expect("an answer")
    }
}

async fn answer_of(request: reqwest::RequestBuilder) -> Result<(u16, Value), reqwest::Error> {
    let reply = request.send().await?;
    Ok((reply.status().as_u16(), reply.json().await?))
}

/// Robinhood Chain.
pub(crate) const ROBINHOOD: ChainId = ChainId(4663);

/// At most a thousand dollars a day and 500 per trade; automatic below 200.
pub(crate) const AUTOMATIC: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 200";
/// The same limits, but every trade needs approval.
pub(crate) const MANUAL: &str = "--trading --trade-daily 1000 --trade-max 500 --trade-auto 0";

pub(crate) struct Stage {
    pub(crate) chain: Devnet,
    pub(crate) contracts: Contracts,
    pub(crate) engine: EngineProcess,
    pub(crate) operator: Operator,
    pub(crate) agent: Agent,
    /// The address that the agent trades from.
    pub(crate) owner: Address,
    start: StartOptions,
    client: reqwest::Client,
    latest_agent_second: i64,
    /// The seconds by which chain and engine are ahead of real time.
    seconds_passed: i64,
    /// Whether the chain mines blocks by itself.
    is_mining: Arc<Mutex<bool>>,
    _home: TempDir,
}

impl Stage {
    /// Starts a local Base and an engine, with this policy for the agent. Returns `None` if
    /// tests with a chain are skipped.
    pub(crate) async fn set_up(policy: &str) -> Option<Self> {
        Self::on(BASE, policy).await
    }

    /// Like [`Self::set_up`], on another chain.
    pub(crate) async fn on(chain: ChainId, policy: &str) -> Option<Self> {
        let chain = full_chain_or_skip(chain).await?;
        let url = chain.url().to_owned();
        Some(Self::with_node(chain, url, policy, Vec::new()).await)
    }

    /// Starts an engine whose node is at `url`, in front of `chain`. `env` holds additional environment variables.
    pub(crate) async fn with_node(
        chain: Devnet,
        url: String,
        policy: &str,
        env: Vec<(String, String)>,
    ) -> Self {
        Self::with_address(chain, url, policy, env, "address create trade 0 \"for tests\"").await
    }

    /// Like [`Self::set_up`], with an address of the simulated Ledger at the socket `at`.
    pub(crate) async fn with_device(policy: &str, at: SocketAddr) -> Option<Self> {
        let chain = full_chain_or_skip(BASE).await?;
        let url = chain.url().to_owned();
        let env = vec![("BURSAR_TEST_LEDGER".to_owned(), at.to_string())];
        let enrol = "address ledger add 0 trade";
        Some(Self::with_address(chain, url, policy, env, enrol).await)
    }

    /// `create` is the command that creates the address `trade`.
    async fn with_address(
        chain: Devnet,
        url: String,
        policy: &str,
        mut env: Vec<(String, String)>,
        create: &str,
    ) -> Self {
        let id = chain.network().chain;
        env.push(("BURSAR_TEST_ETH_PRICE".into(), "3000".into()));
        let rpc = (id == BASE).then(|| url.clone());
        if id == ROBINHOOD {
            env.push(("BURSAR_TEST_ROBINHOOD_RPC".into(), url));
        }
        let start = StartOptions { has_password: false, rpc, env, ..StartOptions::default() };
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must(create).await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        let owner: Address = created.address.parse().expect("an address");
        operator.must(&format!("policy create p {policy}")).await;
        let agent = register(&mut operator, "bot").await;
        // The server closes connections that stay idle, and a slow machine may take long between two calls.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let client = client.timeout(TIMEOUT).build();
        let mut stage = Self {
            contracts: Contracts::of(id).expect("a full chain"),
            chain,
            engine,
            operator,
            agent,
            owner,
            start,
            client: client.expect("a client"),
            latest_agent_second: 0,
            seconds_passed: 0,
            is_mining: Arc::new(Mutex::new(true)),
            _home: home,
        };
        stage.fund().await;
        stage.latest_agent_second = stage.engine.now_s();
        stage.mine_blocks();
        stage
    }

    async fn fund(&self) {
        let owner = self.owner;
        let ether = |amount: u128| json!([owner, U256::from(amount)]);
        self.chain.request("anvil_setBalance", ether(2 * INITIAL_ETHER)).await.expect("set");
        self.chain.mint(owner, INITIAL_DOLLARS).await.expect("minted");
        self.wrap_as(owner, INITIAL_ETHER).await;
        self.chain.request("anvil_setBalance", ether(INITIAL_ETHER)).await.expect("set");
    }

    /// Wraps native coin of any account.
    pub(crate) async fn wrap_as(&self, account: Address, amount: u128) {
        let wrap = Call::new(account, self.contracts.weth, &IWeth::depositCall {});
        let wrap = wrap.with_value(U256::from(amount));
        self.chain.send_as(&wrap).await.expect("wrapped");
    }

    /// Registers a further agent with the same policy and address.
    pub(crate) async fn another_agent(&mut self, name: &str) -> Agent {
        register(&mut self.operator, name).await
    }

    /// Starts to mine ten blocks a second, so that transactions become final.
    fn mine_blocks(&self) {
        let (chain, mines) = (self.chain.clone(), Arc::clone(&self.is_mining));
        tokio::spawn(async move {
            loop {
                // Holding the lock while mining lets `hold_blocks` wait for a block that is in progress.
                let mines = mines.lock().await;
                if *mines && chain.mine(1).await.is_err() {
                    return;
                }
                drop(mines);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Stops mining, so that transactions wait until [`Self::resume_blocks`] or [`Devnet::mine`].
    pub(crate) async fn hold_blocks(&self) {
        *self.is_mining.lock().await = false;
        self.chain.set_automine(false).await.expect("set");
    }

    pub(crate) async fn resume_blocks(&self) {
        self.chain.set_automine(true).await.expect("set");
        *self.is_mining.lock().await = true;
    }

    /// Ends the engine like a crash and starts it again, with the password.
    pub(crate) async fn crash_and_restart(&mut self) {
        self.engine.kill();
        self.restart(None).await;
    }

    /// Starts an engine that has ended again, with the password and a fault.
    pub(crate) async fn restart(&mut self, fault: Option<String>) {
        let start = StartOptions { has_password: true, fault, ..self.start.clone() };
        self.engine = EngineProcess::start(&self.engine.folder, &start);
        self.operator = self.engine.operator().await;
    }

    /// Returns the parts of this scene that `Kills` needs.
    pub(crate) fn scene(&mut self) -> Scene<'_> {
        let start = StartOptions { has_password: true, ..self.start.clone() };
        Scene { engine: &mut self.engine, operator: &mut self.operator, start }
    }

    pub(crate) fn id(&self) -> ChainId {
        self.chain.network().chain
    }

    pub(crate) fn dollar(&self) -> Address {
        self.chain.network().stablecoin.address
    }

    /// Asks for a trade, in a second in which no agent has signed yet.
    pub(crate) async fn trade(&mut self, trade: &Value) -> (u16, Value) {
        let body = self.request_body(None, trade);
        self.post("/trade", &body).await
    }

    /// Asks for a payment, in a second in which no agent has signed yet.
    pub(crate) async fn pay(&mut self, challenge: &Value) -> (u16, Value) {
        self.latest_agent_second += 1;
        let body = self.agent.ask(self.latest_agent_second, &header(challenge), None);
        self.post("/sign", &body).await
    }

    /// Advances the time of the chain and the engine by `seconds`.
    pub(crate) async fn advance_seconds(&mut self, seconds: i64) {
        self.chain.request("evm_increaseTime", json!([seconds])).await.expect("set");
        self.chain.mine(1).await.expect("mined");
        self.seconds_passed += seconds;
        self.engine.set_clock_offset(self.seconds_passed * 1_000);
        self.latest_agent_second += seconds;
    }

    /// Reports that a payment settled in this transaction.
    pub(crate) async fn report_settled(&mut self, id: &str, tx_hash: &str) {
        self.latest_agent_second += 1;
        let body = self.agent.report(self.latest_agent_second, id, "settled", Some(tx_hash));
        let (status, answer) = self.post("/callback", &body).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Returns the status of a payment once the engine has searched for its settlement.
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

    /// Returns the body of a new request, of the first agent or of another one.
    pub(crate) fn request_body(&mut self, agent: Option<&Agent>, trade: &Value) -> Value {
        self.latest_agent_second = (self.latest_agent_second + 1).max(self.engine.now_s());
        agent.unwrap_or(&self.agent).trade(self.latest_agent_second, trade)
    }

    /// Sends the newest trade request again.
    pub(crate) async fn repeat_trade(&self, trade: &Value) -> (u16, Value) {
        self.post("/trade", &self.agent.trade(self.latest_agent_second, trade)).await
    }

    pub(crate) async fn mandate(&mut self) -> (u16, Value) {
        let body = self.mandate_body();
        self.post("/mandate", &body).await
    }

    pub(crate) fn mandate_body(&mut self) -> Value {
        self.latest_agent_second = (self.latest_agent_second + 1).max(self.engine.now_s());
        let action = json!({"action": "agent_read"});
        let fields = action.as_object().expect("an object");
        let signature = self.agent.sign(self.latest_agent_second, fields);
        json!({"agent_id": self.agent.id, "signature": signature})
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.client().get(path).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.client().post(path, body).await
    }

    /// Returns a client of the running engine.
    pub(crate) fn client(&self) -> Client {
        Client { http: self.client.clone(), url: self.engine.url.clone() }
    }

    /// Waits until a spender has no allowance for a token.
    pub(crate) async fn await_no_allowance(&self, token: Address, spender: Address) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        while self.allowance(token, spender).await != U256::ZERO {
            assert!(tokio::time::Instant::now() < end, "{spender} may still take of {token}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn poll(&self, id: &Value) -> (u16, Value) {
        let id = id.as_str().expect("an id");
        self.get(&format!("/trade/status/{id}")).await
    }

    /// Polls a trade until it has ended.
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

    /// Waits until the plan of a trade is closed.
    pub(crate) async fn await_trade_closed(&mut self, id: &Value) {
        let end = tokio::time::Instant::now() + TIMEOUT;
        while !self.has_entry(id, EntryKind::TradeClosed).await {
            assert!(tokio::time::Instant::now() < end, "the plan of {id} does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Like [`Self::await_trade_closed`], for a trade that may have been refused before it had a plan.
    pub(crate) async fn await_trade_over(&mut self, id: &Value) {
        let begins = [EntryKind::TradeStarted, EntryKind::TradeApproved];
        for begin in begins {
            if self.has_entry(id, begin).await {
                self.await_trade_closed(id).await;
            }
        }
    }

    async fn has_entry(&mut self, id: &Value, kind: EntryKind) -> bool {
        let id = id.as_str().expect("an id");
        let answer = self.operator.must("activity --raw").await;
        let Answer::Activity(activity) = answer else { panic!("{answer:?}") };
        let own = |row: &&ActivityRow| row.request.as_deref() == Some(id);
        let mut own = activity.entries.iter().filter(own);
        own.any(|row| row.kind == kind)
    }

    /// Returns the only held request.
    pub(crate) async fn only_held(&mut self) -> RequestAnswer {
        let answer = self.operator.must("requests").await;
        let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
        let [only]: [RequestAnswer; 1] = requests.try_into().expect("one request");
        only
    }

    /// Approves the only held request and returns its card.
    pub(crate) async fn approve_held(&mut self) -> Card {
        let card = self.only_held().await.card.expect("a card");
        let approve = self.approval().await;
        self.operator.must(&approve).await;
        card
    }

    /// Returns the command that approves the only held request.
    pub(crate) async fn approval(&mut self) -> String {
        let held = self.only_held().await;
        let card = held.card.expect("a card");
        let (id, digest, usd) = (held.id, card.digest, card.usd);
        format!("approve {id} --card {digest} --yes --confirm {usd}")
    }

    /// Returns the owner's balance of a token; the zero address stands for the native coin.
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

    /// Returns a spender's allowance for a token in Permit2, and the nonce of the next permit.
    pub(crate) async fn permit2_allowance(&self, token: Address, spender: Address) -> (U256, u64) {
        let asked = IPermit2::allowanceCall { user: self.owner, token, spender };
        let found = self.chain.read(self.contracts.permit2, asked).await.expect("an allowance");
        (U256::from(found.amount), found.nonce.to())
    }

    /// Returns the gas cost that the owner paid for the transactions of an answer, in wei.
    pub(crate) async fn gas_of(&self, answer: &Value) -> U256 {
        let mut sum = U256::ZERO;
        for key in ["tx_hash", "approval_tx_hash"] {
            let Some(hash) = answer[key].as_str() else { continue };
            sum += self.gas_of_hash(hash).await;
        }
        sum
    }

    /// Returns the gas cost of one transaction, in wei.
    pub(crate) async fn gas_of_hash(&self, hash: &str) -> U256 {
        let receipt = self.chain.request("eth_getTransactionReceipt", json!([hash])).await;
        let receipt = receipt.expect("a receipt");
        let number = |name: &str| -> U256 {
            serde_json::from_value(receipt[name].clone()).expect("a number")
        };
        number("gasUsed") * number("effectiveGasPrice")
    }
}

/// Registers an agent that trades from the address under the policy.
async fn register(operator: &mut Operator, name: &str) -> Agent {
    let created = operator.outcome(&format!("agent register {name} --auth hmac")).await;
    let Ok(Answer::Credentials(given)) = created.reply.result else {
        panic!("{:?}", created.reply.result);
    };
    operator.must(&format!("agent commission {} p trade", given.agent_id)).await;
    let token = created.secret.expect("a token");
    Agent::new(given.agent_id, token, false)
}

/// Reads an amount in smallest units from an answer.
pub(crate) fn atoms(value: &Value) -> U256 {
    value.to_string().parse().unwrap_or_else(|_none| panic!("{value} is not an amount"))
}
