//! End to end: our wallet pays official shops, which settle through our facilitator.

use bursar_core::networks::ChainId;
use bursar_tests::ready_wallet::ReadyWallet;
use serde_json::{Value, json};

use crate::facilitator::market::{Market, PRICE_IN_DOLLARS, explicit_price};
use crate::facilitator::stage::{BASE, INITIAL_BALANCE, ROBINHOOD, Stage};

/// An open wallet with money, and the HTTP client of its agent.
struct Spender {
    wallet: ReadyWallet,
    client: reqwest::Client,
}

impl Spender {
    async fn set_up(stage: &Stage) -> Self {
        let wallet = ReadyWallet::start().await;
        stage.chain.mint(wallet.payer, INITIAL_BALANCE).await.expect("minted");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { wallet, client }
    }

    /// Asks the wallet to pay a shop's challenge; returns the payment header's name and value.
    async fn sign(&mut self, url: &str) -> (String, String) {
        let asked = self.client.get(url).send().await.expect("the shop answers");
        assert_eq!(asked.status(), 402);
        let stamp = self.wallet.next_second();
        let agent = &self.wallet.agent;
        let body = match asked.headers().get("payment-required").cloned() {
            Some(offer) => agent.ask(stamp, offer.to_str().expect("text"), Some(url)),
            None => {
                let offer: Value = asked.json().await.expect("JSON");
                agent.ask_v1(stamp, &offer, Some(url))
            }
        };
        let signed =
            self.client.post(format!("{}/sign", self.wallet.engine.url)).json(&body).send().await;
        let signed: Value = signed.expect("the wallet answers").json().await.expect("JSON");
        assert_eq!(signed["status"], "success", "{signed}");
        let text = |name: &str| signed[name].as_str().expect("text").to_owned();
        (text("header_name"), text("header_value"))
    }
}

async fn pays_on(chain: ChainId, routes: impl Fn(&Stage) -> Value, paths: &[&str]) {
    let Some(stage) = Stage::set_up(chain, 1, "").await else { return };
    let mut spender = Spender::set_up(&stage).await;
    let routes = routes(&stage);
    let market = Market::open(stage, routes).await;
    for path in paths {
        let before = market.balances(spender.wallet.payer).await;
        let (name, value) = spender.sign(&market.url(path)).await;
        market.assert_sells(path, spender.wallet.payer, (&name, &value)).await;
        market.assert_paid(spender.wallet.payer, before, path).await;
    }
    market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_official_shops_of_both_versions_through_us_on_base() {
    let routes = |stage: &Stage| {
        json!({
            "v1": { "/v1": { "network": "base", "price": PRICE_IN_DOLLARS } },
            "v2": { "/v2": { "network": stage.network().caip2(), "price": PRICE_IN_DOLLARS } },
        })
    };
    pays_on(BASE, routes, &["/v1", "/v2"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_wallet_pays_official_shops_through_us_on_robinhood() {
    let routes = |stage: &Stage| {
        let network = stage.network().caip2();
        json!({ "v2": { "/v2": { "network": network, "price": explicit_price(stage) } } })
    };
    pays_on(ROBINHOOD, routes, &["/v2"]).await;
}
