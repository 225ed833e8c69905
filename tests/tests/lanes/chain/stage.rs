//! The scene of these tests: a local chain, a merchant that settles on it, and an engine process with its operator at
//! the control socket. Each test sets up its own scene, so that no test depends on another.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, U256};
use bursar_control::answers::{AgentAnswer, Answer, RequestAnswer};
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_devnet::install::chain_or_skip;
use bursar_devnet::merchant::{Merchant, MerchantConfig, Outcome, Version};
use bursar_devnet::{Authorization, Devnet};
use bursar_engine::edition::Edition;
use bursar_tests::agent::Agent;
use bursar_tests::offers::{BASE, PAY_TO, decode_header};
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, StartOptions};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::chain::programs::{Buyer, Case, ProgramResult};

/// Prices in smallest units: under [`POLICY`], `/small` is paid automatically, and `/large` is held.
pub(crate) const SMALL_PRICE: u128 = 12_000;
pub(crate) const LARGE_PRICE: u128 = 1_500_000;
/// The items `/0` to `/9` cost this amount plus their number, so that all prices differ.
pub(crate) const NUMBERED_PRICE_BASE: u128 = 10_000;

/// At most ten dollars a day and five per payment; automatic below half a dollar.
const POLICY: &str = "--day 10 --txn 5 --auto 0.5";
/// Initial balance of the paying address, in smallest units.
const INITIAL_BALANCE: u128 = 20_000_000;

/// Timeout of every wait; reached only on failure.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two polls.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Starts a local chain with its stablecoin; `None` if tests with a chain are skipped.
pub(crate) async fn local_chain(chain: ChainId) -> Option<Devnet> {
    let anvil = chain_or_skip()?;
    Some(Devnet::start_at(&anvil, chain).await.expect("a local chain"))
}

/// Parses an amount as commands write it.
pub(crate) fn dollars(text: &str) -> Usd {
    Usd::parse(text).expect("an amount")
}

pub(crate) fn merchant_address() -> Address {
    PAY_TO.parse().expect("an address")
}

/// Starts a merchant with the test's prices that settles on `chain`.
pub(crate) async fn open_shop(chain: &Devnet) -> Merchant {
    let mut goods = MerchantConfig::new(BASE, merchant_address())
        .sell("/small", SMALL_PRICE)
        .sell_in(Version::V1, "/v1/small", SMALL_PRICE)
        .sell("/large", LARGE_PRICE)
        .sell_in(Version::V1, "/v1/large", LARGE_PRICE)
        .settle_on(chain.clone());
    for n in 0..10 {
        goods = goods.sell(&format!("/{n}"), NUMBERED_PRICE_BASE + n);
    }
    Merchant::serve(goods).await.expect("a port")
}

/// Returns the authorization in a payment header, and its signature.
pub(crate) fn signed_terms(header: &str) -> (Authorization, Vec<u8>) {
    let payload = decode_header(header)["payload"].clone();
    let text = |name: &str| payload["authorization"][name].as_str().expect("text").to_owned();
    let terms = Authorization {
        from: text("from").parse().expect("an address"),
        to: text("to").parse().expect("an address"),
        value: text("value").parse().expect("a number"),
        valid_after: text("validAfter").parse().expect("a number"),
        valid_before: text("validBefore").parse().expect("a number"),
        nonce: text("nonce").parse().expect("32 bytes"),
    };
    let signature = payload["signature"].as_str().and_then(|text| text.strip_prefix("0x"));
    (terms, hex::decode(signature.expect("0x")).expect("hex"))
}

/// Balances of payer and merchant on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balances {
    pub(crate) payer: U256,
    pub(crate) merchant: U256,
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) chain: Devnet,
    pub(crate) merchant: Merchant,
    pub(crate) engine: EngineProcess,
    pub(crate) operator: Operator,
    /// The address that agents pay from.
    pub(crate) payer: Address,
    /// Options for the next engine.
    pub(crate) start: StartOptions,
    client: reqwest::Client,
    /// How far the engine's clock is ahead.
    clock_lead_ms: i64,
    /// The latest timestamp of an agent. Two requests must differ by a second; otherwise they are one payment.
    latest_agent_second: AtomicI64,
    /// Keeps the folder until the engine is dropped.
    _home: TempDir,
}

impl Stage {
    /// Sets up an open wallet with money and a policy, and no agent.
    pub(crate) async fn set_up(chain: Devnet, start: StartOptions) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &start);
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let created = operator.must("address create pay 0 \"for tests\"").await;
        let Answer::Address(created) = created else { panic!("{created:?}") };
        operator.must(&format!("policy create p {POLICY}")).await;
        let payer = created.address.parse().expect("an address");
        chain.mint(payer, INITIAL_BALANCE).await.expect("minted");
        let merchant = open_shop(&chain).await;
        // The server closes connections that stay idle, and a slow machine may take long between two calls.
        let client = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let client = client.timeout(TIMEOUT).build();
        let client = client.expect("a client");
        let (ahead_ms, stamp) = (0, AtomicI64::new(0));
        Self {
            chain,
            merchant,
            engine,
            operator,
            payer,
            start,
            client,
            clock_lead_ms: ahead_ms,
            latest_agent_second: stamp,
            _home: home,
        }
    }

    /// Starts an engine on the same folder after the previous one has ended. Its wallet is locked.
    pub(crate) async fn start_again(&mut self) {
        self.engine = EngineProcess::start(&self.engine.folder, &self.start);
        self.operator = self.engine.operator().await;
    }

    /// Registers and commissions an agent.
    pub(crate) async fn add_agent(&mut self, name: &str, auth: &str) -> Agent {
        let created = self.operator.outcome(&format!("agent register {name} --auth {auth}")).await;
        let Ok(Answer::Credentials(given)) = created.reply.result else {
            panic!("{:?}", created.reply.result);
        };
        self.operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let token = created.secret.expect("a token");
        let field = Edition::of(self.start.edition).wire.field;
        Agent { field, ..Agent::new(given.agent_id, token, auth == "bearer") }
    }

    /// Starts an agent program that buys the item at `path`.
    pub(crate) fn send(&self, case: &Case, agent: &Agent, path: &str) -> Buyer {
        case.send(agent, &self.engine.url, &self.url(path))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.merchant.url())
    }

    /// Returns a body that asks for a payment of the item at `path`; it can be sent more than once.
    pub(crate) async fn ask_for(&self, agent: &Agent, path: &str) -> Value {
        let url = self.url(path);
        let answer = self.client.get(&url).send().await.expect("the merchant answers");
        assert_eq!(answer.status(), 402);
        match answer.headers().get("payment-required").cloned() {
            Some(offer) => agent.ask(self.next_second(), offer.to_str().expect("text"), Some(&url)),
            None => {
                agent.ask_v1(self.next_second(), &answer.json().await.expect("JSON"), Some(&url))
            }
        }
    }

    /// Returns a second in which no agent has signed yet.
    pub(crate) fn next_second(&self) -> i64 {
        let now = jiff::Timestamp::now().as_second();
        let next = |last: i64| Some(now.max(last + 1));
        let last = self.latest_agent_second.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        now.max(last.expect("always some") + 1)
    }

    pub(crate) async fn ask(&self, body: &Value) -> (u16, Value) {
        answer(self.client.post(format!("{}/sign", self.engine.url)).json(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.client.post(format!("{}{path}", self.engine.url)).json(body)).await
    }

    pub(crate) async fn poll(&self, id: &str) -> (u16, Value) {
        answer(self.client.get(format!("{}/sign/status/{id}", self.engine.url))).await
    }

    /// Sends an agent's report about a payment.
    pub(crate) async fn report(
        &self,
        agent: &Agent,
        id: &str,
        event: &str,
        tx_hash: &str,
    ) -> (u16, Value) {
        let body = agent.report(self.next_second(), id, event, Some(tx_hash));
        answer(self.client.post(format!("{}/callback", self.engine.url)).json(&body)).await
    }

    pub(crate) async fn receipt(&self, id: &str) -> Value {
        let reply = self.client.get(format!("{}/receipt/{id}", self.engine.url));
        let (status, receipt) = answer(reply).await;
        assert_eq!(status, 200, "{receipt}");
        receipt
    }

    /// Advances the engine by half a second, so that work which follows a pause soon starts.
    pub(crate) async fn advance_half_second(&mut self) {
        self.advance(500);
        sleep(POLL_INTERVAL).await;
    }

    /// Advances the engine's time. If it is more than five minutes ahead, the engine rejects hmac
    /// proofs made at the real time.
    pub(crate) fn advance(&mut self, ms: i64) {
        self.clock_lead_ms += ms;
        self.engine.set_clock_offset(self.clock_lead_ms);
    }

    /// Returns the receipt once the engine's own probe of the chain has this verdict.
    pub(crate) async fn receipt_with_verdict(&mut self, id: &str, verdict: &str) -> Value {
        let end = Instant::now() + TIMEOUT;
        // Six passes exceed the engine's pause before its first probe. Their number is bounded, because a
        // busy machine needs real time.
        let mut passes = 6;
        loop {
            let receipt = self.receipt(id).await;
            match receipt["settlement"]["verification"]["status"].as_str() {
                Some(found) if found == verdict => return receipt,
                Some("pending") if passes > 0 => self.advance_half_second().await,
                Some("pending") if Instant::now() < end => sleep(POLL_INTERVAL).await,
                _other => panic!("not {verdict}: {receipt}"),
            }
            passes = (passes - 1).max(0);
        }
    }

    /// Requests `url` with the payment in a wallet's answer.
    pub(crate) async fn request_with_payment(&self, url: &str, signed: &Value) -> (u16, Value) {
        let text = |name: &str| signed[name].as_str().unwrap_or_else(|| panic!("{signed}"));
        let paying = self.client.get(url).header(text("header_name"), text("header_value"));
        answer(paying).await
    }

    /// Returns the requests pending for the operator, once there are `count`.
    pub(crate) async fn wait_for_held(&mut self, count: usize) -> Vec<RequestAnswer> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let answer = self.operator.must("requests").await;
            let Answer::Requests { requests } = answer else { panic!("{answer:?}") };
            if requests.len() == count {
                return requests;
            }
            assert!(Instant::now() < end, "{} requests wait, not {count}", requests.len());
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the only pending request.
    pub(crate) async fn wait_for_only_held(&mut self) -> RequestAnswer {
        self.wait_for_held(1).await.remove(0)
    }

    /// Returns the agents as the operator sees them.
    pub(crate) async fn agents(&mut self) -> Vec<AgentAnswer> {
        match self.operator.must("agent list").await {
            Answer::Agents { agents } => agents,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn balances(&self) -> Balances {
        let of = async |owner| self.chain.balance_of(owner).await.expect("a balance");
        Balances { payer: of(self.payer).await, merchant: of(merchant_address()).await }
    }

    /// Asserts that exactly `price` moved from payer to merchant since `before`.
    pub(crate) async fn assert_moved(&self, before: Balances, price: u128) {
        let price = U256::from(price);
        let wanted = Balances { payer: before.payer - price, merchant: before.merchant + price };
        assert_eq!(self.balances().await, wanted, "before: {before:?}");
    }

    /// Returns the merchant's latest payment.
    ///
    /// It must have been settled by our address at that price, and the chain must know its authorization as used.
    pub(crate) async fn latest_settlement(&self, price: u128) -> (Authorization, B256) {
        let latest = self.merchant.payments().pop().expect("a payment");
        let Outcome::Settled { terms, transaction } = latest.outcome else {
            panic!("{:?}", latest.outcome);
        };
        let route = (terms.from, terms.to, terms.value);
        assert_eq!(route, (self.payer, merchant_address(), U256::from(price)));
        assert!(
            self.chain.is_authorization_used(terms.from, terms.nonce).await.expect("an answer")
        );
        (terms, transaction)
    }

    /// Asserts that the agent paid, the merchant was paid, and the money moved on the chain.
    pub(crate) async fn assert_bought(
        &self,
        answer: &ProgramResult,
        before: Balances,
        price: u128,
    ) {
        assert_eq!(answer.outcome(), ("paid", Some(0)), "{}", answer.line);
        let (_terms, transaction) = self.latest_settlement(price).await;
        assert_eq!(answer.line["payment_response"]["transaction"], transaction.to_string());
        assert_eq!(answer.line["body"]["settled"], true, "{}", answer.line);
        self.assert_moved(before, price).await;
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}
