//! The whole purchase with our own programs only: request, price, signature, sale, settlement.
//!
//! The wallet signs at once or asks its operator first, and the facilitator settles on the chain.

use bursar_core::networks::ChainId;
use bursar_tests::operator::Expect;
use bursar_tests::proxy::{PaymentRequired, chat, client, receipt, streaming_chat};
use bursar_tests::ready_wallet::ReadyWallet;
use bursar_tests::upstream::{Behavior, answer, frames};
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::proxy_clients::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

/// At this price a request for 100 tokens costs more than half a dollar, and one for 10 does not.
const PRICE: &str = "price_per_1k_tokens = \"5\"";

/// An open wallet with money, and the HTTP client of its agent.
struct Spender {
    wallet: ReadyWallet,
    client: Client,
}

impl Spender {
    async fn set_up(stage: &Stage) -> Self {
        let wallet = ReadyWallet::start().await;
        stage.chain.mint(wallet.payer, INITIAL_BALANCE).await.expect("minted");
        Self { wallet, client: client() }
    }

    async fn request(&self, url: &str, body: &Value, paid: Option<&Value>) -> Response {
        let mut request = self.client.post(url).json(body);
        if let Some(paid) = paid {
            let text = |name: &str| paid[name].as_str().expect("text").to_owned();
            request = request.header(text("header_name"), text("header_value"));
        }
        request.send().await.expect("answered")
    }

    /// Asks the wallet to sign for the proxy's offer; returns the wallet's answer.
    async fn sign(&mut self, version: u64, url: &str, body: &Value) -> (u16, Value) {
        let stamp = self.wallet.next_second();
        let agent = &self.wallet.agent;
        let response = self.request(url, body, None).await;
        let request = if version == 2 {
            let offer = response.headers()["payment-required"].to_str().expect("text").to_owned();
            agent.ask(stamp, &offer, Some(url))
        } else {
            let offer = PaymentRequired::read(response).await.v1;
            agent.ask_v1(stamp, &offer, Some(url))
        };
        let answer = self
            .client
            .post(format!("{}/sign", self.wallet.engine.url))
            .json(&request)
            .send()
            .await;
        let answer = answer.expect("the wallet answers");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    async fn status(&self, id: &str) -> (u16, Value) {
        let answer =
            self.client.get(format!("{}/sign/status/{id}", self.wallet.engine.url)).send().await;
        let answer = answer.expect("the wallet answers");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }
}

fn small_request(text: &str) -> Value {
    let mut body = chat(text);
    body["max_completion_tokens"] = json!(10);
    body
}

async fn pays_on(chain: ChainId) {
    let does = Behavior::Whole(answer("hello world"));
    let Some(stage) = Stage::with(chain, does, "", PRICE).await else { return };
    let mut spender = Spender::set_up(&stage).await;
    let url = format!("{}/chat/completions", stage.base_url());
    for version in [1, 2] {
        // Below the limit the wallet signs at once.
        let before = stage.earned().await;
        let (status, signed) = spender.sign(version, &url, &small_request("hello")).await;
        assert_eq!((status, &signed["status"]), (200, &json!("success")), "{signed}");
        let response = spender.request(&url, &small_request("hello"), Some(&signed)).await;
        assert_eq!(response.status(), 200);
        let paid = receipt(&response);
        assert_eq!(response.json::<Value>().await.unwrap(), answer("hello world"));
        let amount = stage.earned().await - before;
        stage.assert_moved(&paid, spender.wallet.payer, amount).await;

        // Above the limit, nothing is signed before the operator approves.
        let before = stage.earned().await;
        let body = streaming_chat("hello");
        let (status, held) = spender.sign(version, &url, &body).await;
        assert_eq!((status, &held["code"]), (202, &json!("APPROVAL_REQUIRED")), "{held}");
        let id = held["request_id"].as_str().expect("an id").to_owned();
        assert_eq!(spender.status(&id).await.0, 202);
        spender.wallet.operator.must(&format!("approve {id}")).await;
        let (status, signed) = spender.status(&id).await;
        assert_eq!((status, &signed["status"]), (200, &json!("success")), "{signed}");
        stage.upstream.set_behavior(Behavior::Stream(frames(&["hello", " world"])));
        let response = spender.request(&url, &body, Some(&signed)).await;
        assert_eq!(response.status(), 200);
        let paid = receipt(&response);
        assert_eq!(response.text().await.unwrap(), frames(&["hello", " world"]).concat());
        let amount = stage.earned().await - before;
        assert!(amount > alloy_primitives::U256::from(500_000), "{amount}");
        stage.assert_moved(&paid, spender.wallet.payer, amount).await;
        stage.upstream.set_behavior(Behavior::Whole(answer("hello world")));
    }
    assert_eq!(stage.upstream.calls(), 4);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_the_proxy_on_base_at_once_and_after_an_approval() {
    pays_on(BASE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_the_proxy_on_robinhood_at_once_and_after_an_approval() {
    pays_on(ROBINHOOD).await;
}
