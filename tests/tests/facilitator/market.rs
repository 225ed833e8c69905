//! A shop and a customer of the protocol's own packages, unchanged, with our facilitator between them.

use alloy_primitives::{Address, B256, U256};
use bursar_tests::offers::opened;
use bursar_tests::payer::Payer;
use bursar_tests::sdk::Script;
use serde_json::{Value, json};

use crate::stage::{SHOP, Stage};

/// What everything costs here, in smallest units, and as the packages write it for a token that they know.
pub(crate) const PRICE: u64 = 12_000;
pub(crate) const DOLLARS: &str = "$0.012";

/// The clients.
pub(crate) const FETCH_V2: &str = "@x402/fetch";
pub(crate) const FETCH_V1: &str = "x402-fetch";

/// A shop of official packages, and a customer.
#[derive(Debug)]
pub(crate) struct Market {
    pub(crate) stage: Stage,
    shop: Script,
    buyer: Script,
    client: reqwest::Client,
}

impl Market {
    /// `routes` are what the shop sells, by version.
    pub(crate) async fn open(stage: Stage, routes: Value) -> Self {
        let mut goods = routes;
        goods["facilitator"] = json!(stage.facilitator.url);
        goods["payTo"] = json!(SHOP);
        let shop = Script::start("shop.mjs", &[&goods.to_string()]).await;
        let buyer = Script::start("buyer.mjs", &[]).await;
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { stage, shop, buyer, client }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.shop.ready)
    }

    pub(crate) async fn balances(&self, payer: Address) -> (U256, U256) {
        (self.stage.balance(payer).await, self.stage.balance(SHOP).await)
    }

    /// Buys what is at `path`: it is delivered, paid for once on the chain, and the receipt names the
    /// transaction. The same payment again moves nothing, and the shop sends `again`.
    pub(crate) async fn assert_buys(
        &mut self,
        client: &str,
        path: &str,
        purse: Purse,
        again: &str,
    ) {
        let case = format!("{client} at {path}");
        let before = self.balances(purse.address).await;
        let coin = self.stage.network();
        let order = json!({
            "client": client, "url": self.url(path), "key": purse.key, "wallet": purse.wallet,
            "allowed": [{ "network": coin.caip2(), "asset": coin.stablecoin.address }],
        });
        let told = self.buyer.ask(&order).await;
        assert_eq!(told["status"], 200, "{case}: {told}");
        assert_eq!(told["body"]["content"], "what was paid for", "{case}");
        let receipt = &told["receipt"];
        assert_eq!(receipt["success"], true, "{case}: {receipt}");
        assert_eq!(receipt["payer"], json!(purse.address), "{case}: {receipt}");
        let paid = (before.0 - U256::from(PRICE), before.1 + U256::from(PRICE));
        assert_eq!(self.balances(purse.address).await, paid, "{case}");
        self.assert_holds(receipt).await;

        let header = &told["header"];
        let text = |name: &str| header[name].as_str().expect("text");
        let asked = self.client.get(self.url(path)).header(text("name"), text("value"));
        let answer = asked.send().await.expect("an answer");
        assert_eq!(answer.status(), 402, "{case}");
        let challenge = answer.headers().get("payment-required").cloned();
        let challenge = match challenge {
            Some(header) => opened(header.to_str().expect("text")),
            None => answer.json().await.expect("JSON"),
        };
        assert_eq!(challenge["error"], again, "{case}: {challenge}");
        assert_eq!(self.balances(purse.address).await, paid, "{case}: moved once");
    }

    /// The transaction of a receipt is one of the facilitator's, and has succeeded.
    async fn assert_holds(&self, receipt: &Value) {
        let hash: B256 = receipt["transaction"].as_str().expect("text").parse().expect("a hash");
        let chain = &self.stage.chain;
        let mined = chain.request("eth_getTransactionReceipt", json!([hash])).await;
        let mined = mined.expect("an answer");
        assert_eq!(mined["status"], "0x1", "{mined}");
        let from: Address = mined["from"].as_str().expect("text").parse().expect("an address");
        assert!(self.stage.home.signers.contains(&from), "{mined}");
    }

    pub(crate) async fn close(self) {
        self.stage.facilitator.stop().await;
    }
}

/// Whose money it is, and the key that signs for it.
pub(crate) struct Purse {
    pub(crate) address: Address,
    pub(crate) key: String,
    /// If it is not the key's own: what the customer's script needs to know.
    pub(crate) wallet: Value,
}

impl Purse {
    pub(crate) fn of(payer: &Payer) -> Self {
        Self { address: payer.address(), key: payer.key(), wallet: Value::Null }
    }
}

/// A price in a network's dollar token, written out.
pub(crate) fn atoms(stage: &Stage) -> Value {
    let coin = &stage.network().stablecoin;
    json!({
        "amount": PRICE.to_string(), "asset": coin.address,
        "extra": { "name": coin.domain_name, "version": coin.domain_version },
    })
}
