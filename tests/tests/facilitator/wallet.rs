//! The whole way without a line of ours between: our wallet pays official shops, and our facilitator settles.

use alloy_primitives::Address;
use bursar_core::answers::Answer;
use bursar_core::networks::ChainId;
use bursar_tests::agent::Agent;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, Start};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::market::{DOLLARS, Market, atoms};
use crate::stage::{BASE, PURSE, ROBINHOOD, Stage};

/// Ten dollars a day, five a payment, automatic below half a dollar.
const POLICY: &str = "--day 10 --txn 5 --auto 0.5";

/// An open wallet with a full purse, and an agent who may spend from it.
struct Spender {
    engine: EngineProcess,
    agent: Agent,
    payer: Address,
    /// The second in which the agent last signed: another one makes another payment.
    stamp: i64,
    client: reqwest::Client,
    _home: TempDir,
}

impl Spender {
    async fn set(stage: &Stage) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let engine = EngineProcess::start(&home.path().join("data"), &Start::default());
        let mut operator = engine.operator().await;
        operator.must("wallet create main").await;
        operator.must("seed create").await;
        let made = operator.must("address create pay 0 \"for tests\"").await;
        let Answer::Address(made) = made else { panic!("{made:?}") };
        let payer = made.address.parse().expect("an address");
        operator.must(&format!("policy create p {POLICY}")).await;
        stage.chain.mint(payer, PURSE).await.expect("minted");
        let agent = hire(&mut operator).await;
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { engine, agent, payer, stamp: 0, client, _home: home }
    }

    /// Asks the wallet for what a shop's challenge wants, and returns header and value.
    async fn sign(&mut self, url: &str) -> (String, String) {
        let asked = self.client.get(url).send().await.expect("the shop answers");
        assert_eq!(asked.status(), 402);
        self.stamp = jiff::Timestamp::now().as_second().max(self.stamp + 1);
        let body = match asked.headers().get("payment-required").cloned() {
            Some(offer) => self.agent.ask(self.stamp, offer.to_str().expect("text"), Some(url)),
            None => {
                let offer: Value = asked.json().await.expect("JSON");
                self.agent.ask_data(self.stamp, &offer, Some(url))
            }
        };
        let signed = self.client.post(format!("{}/sign", self.engine.url)).json(&body).send().await;
        let signed: Value = signed.expect("the wallet answers").json().await.expect("JSON");
        assert_eq!(signed["status"], "success", "{signed}");
        let text = |name: &str| signed[name].as_str().expect("text").to_owned();
        (text("header_name"), text("header_value"))
    }
}

async fn hire(operator: &mut Operator) -> Agent {
    let made = operator.outcome("agent register bot --auth hmac").await;
    let Ok(Answer::Credentials(given)) = made.reply.result else {
        panic!("{:?}", made.reply.result);
    };
    operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
    Agent { id: given.agent_id, token: made.secret.expect("a token"), bearer: false }
}

async fn pays_on(chain: ChainId, routes: impl Fn(&Stage) -> Value, paths: &[&str]) {
    let Some(stage) = Stage::set(chain, 1, "").await else { return };
    let mut spender = Spender::set(&stage).await;
    let routes = routes(&stage);
    let market = Market::open(stage, routes).await;
    for path in paths {
        let before = market.balances(spender.payer).await;
        let (name, value) = spender.sign(&market.url(path)).await;
        market.assert_sells(path, spender.payer, (&name, &value)).await;
        market.assert_paid(spender.payer, before, path).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_official_shops_of_both_versions_through_us_on_base() {
    let routes = |stage: &Stage| {
        json!({
            "v1": { "/v1": { "network": "base", "price": DOLLARS } },
            "v2": { "/v2": { "network": stage.network().caip2(), "price": DOLLARS } },
        })
    };
    pays_on(BASE, routes, &["/v1", "/v2"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_official_shops_through_us_on_robinhood() {
    let routes = |stage: &Stage| {
        let network = stage.network().caip2();
        json!({ "v2": { "/v2": { "network": network, "price": atoms(stage) } } })
    };
    pays_on(ROBINHOOD, routes, &["/v2"]).await;
}
