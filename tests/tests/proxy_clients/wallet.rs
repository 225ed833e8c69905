//! The whole loop without a line that is not ours: an agent's request meets a price, the wallet signs for it or
//! asks its operator first, the proxy sells, and the facilitator settles on the chain.

use alloy_primitives::Address;
use bursar_core::answers::Answer;
use bursar_core::networks::ChainId;
use bursar_tests::agent::Agent;
use bursar_tests::operator::{Expect, Operator};
use bursar_tests::process::{EngineProcess, Start};
use bursar_tests::proxy::{Asked, chat, client, receipt, streaming};
use bursar_tests::upstream::{Does, answer, frames};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::stage::{BASE, PURSE, ROBINHOOD, Stage};

/// Ten dollars a day, five a payment, automatic below half a dollar.
const POLICY: &str = "--day 10 --txn 5 --auto 0.5";
/// A hundred tokens and what is asked cost more than half a dollar, and ten of them do not.
const PRICE: &str = "price_per_1k_tokens = \"5\"";

/// An open wallet with a full purse, and an agent who may spend from it.
struct Household {
    engine: EngineProcess,
    operator: Operator,
    agent: Agent,
    payer: Address,
    /// The second in which the agent last signed: another one makes another payment.
    stamp: i64,
    client: Client,
    _home: TempDir,
}

impl Household {
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
        let made = operator.outcome("agent register bot --auth hmac").await;
        let Ok(Answer::Credentials(given)) = made.reply.result else {
            panic!("{:?}", made.reply.result);
        };
        operator.must(&format!("agent commission {} p pay", given.agent_id)).await;
        let token = made.secret.expect("a token");
        let agent = Agent { id: given.agent_id, token, bearer: false };
        stage.chain.mint(payer, PURSE).await.expect("minted");
        Self { engine, operator, agent, payer, stamp: 0, client: client(), _home: home }
    }

    async fn request(&self, url: &str, body: &Value, paid: Option<&Value>) -> Response {
        let mut request = self.client.post(url).json(body);
        if let Some(paid) = paid {
            let text = |name: &str| paid[name].as_str().expect("text").to_owned();
            request = request.header(text("header_name"), text("header_value"));
        }
        request.send().await.expect("answered")
    }

    /// What the wallet says to what the proxy asks for.
    async fn sign(&mut self, version: u64, url: &str, body: &Value) -> (u16, Value) {
        self.stamp = jiff::Timestamp::now().as_second().max(self.stamp + 1);
        let asked = self.request(url, body, None).await;
        let order = if version == 2 {
            let offer = asked.headers()["payment-required"].to_str().expect("text").to_owned();
            self.agent.ask(self.stamp, &offer, Some(url))
        } else {
            let offer = Asked::read(asked).await.first;
            self.agent.ask_data(self.stamp, &offer, Some(url))
        };
        let told = self.client.post(format!("{}/sign", self.engine.url)).json(&order).send().await;
        let told = told.expect("the wallet answers");
        (told.status().as_u16(), told.json().await.expect("JSON"))
    }

    async fn status(&self, id: &str) -> (u16, Value) {
        let told = self.client.get(format!("{}/sign/status/{id}", self.engine.url)).send().await;
        let told = told.expect("the wallet answers");
        (told.status().as_u16(), told.json().await.expect("JSON"))
    }
}

fn small(text: &str) -> Value {
    let mut body = chat(text);
    body["max_completion_tokens"] = json!(10);
    body
}

async fn pays_on(chain: ChainId) {
    let does = Does::Whole(answer("hello world"));
    let Some(stage) = Stage::with(chain, does, "", PRICE).await else { return };
    let mut household = Household::set(&stage).await;
    let url = format!("{}/chat/completions", stage.base_url());
    for version in [1, 2] {
        // Below the limit the wallet signs at once.
        let before = stage.earned().await;
        let (status, signed) = household.sign(version, &url, &small("hello")).await;
        assert_eq!((status, &signed["status"]), (200, &json!("success")), "{signed}");
        let got = household.request(&url, &small("hello"), Some(&signed)).await;
        assert_eq!(got.status(), 200);
        let paid = receipt(&got);
        assert_eq!(got.json::<Value>().await.unwrap(), answer("hello world"));
        let amount = stage.earned().await - before;
        stage.assert_moved(&paid, household.payer, amount).await;

        // Above it nothing is signed before the operator has looked.
        let before = stage.earned().await;
        let body = streaming("hello");
        let (status, held) = household.sign(version, &url, &body).await;
        assert_eq!((status, &held["code"]), (202, &json!("APPROVAL_REQUIRED")), "{held}");
        let id = held["request_id"].as_str().expect("an id").to_owned();
        assert_eq!(household.status(&id).await.0, 202);
        household.operator.must(&format!("approve {id}")).await;
        let (status, signed) = household.status(&id).await;
        assert_eq!((status, &signed["status"]), (200, &json!("success")), "{signed}");
        stage.upstream.does(Does::Stream(frames(&["hello", " world"])));
        let got = household.request(&url, &body, Some(&signed)).await;
        assert_eq!(got.status(), 200);
        let paid = receipt(&got);
        assert_eq!(got.text().await.unwrap(), frames(&["hello", " world"]).concat());
        let amount = stage.earned().await - before;
        assert!(amount > alloy_primitives::U256::from(500_000), "{amount}");
        stage.assert_moved(&paid, household.payer, amount).await;
        stage.upstream.does(Does::Whole(answer("hello world")));
    }
    assert_eq!(stage.upstream.calls(), 4);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_the_proxy_on_base_at_once_and_after_its_operator_agreed() {
    pays_on(BASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_the_proxy_on_robinhood_at_once_and_after_its_operator_agreed() {
    pays_on(ROBINHOOD).await;
}
