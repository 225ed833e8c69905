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

    /// What came of a customer's way to the shop, who keeps the payment to themselves if it is held.
    async fn order(&mut self, client: &str, url: &str, purse: &Purse) -> Value {
        let network = self.stage.network();
        let order = json!({
            "client": client, "url": url, "key": purse.key, "wallet": purse.wallet,
            "allowed": [{ "network": network.caip2(), "asset": network.stablecoin.address }],
        });
        self.buyer.ask(&order).await
    }

    /// A customer buys what is at `path`: it is delivered, paid for once on the chain, and the receipt names
    /// the transaction. The same payment again moves nothing, and the shop says `again`.
    pub(crate) async fn assert_buys(
        &mut self,
        client: &str,
        path: &str,
        purse: Purse,
        again: &str,
    ) {
        let case = format!("{client} at {path}");
        let before = self.balances(purse.address).await;
        let told = self.order(client, &self.url(path), &purse).await;
        assert_eq!(told["status"], 200, "{case}: {told}");
        assert_eq!(told["body"]["content"], "what was paid for", "{case}");
        self.assert_receipt(&told["receipt"], purse.address).await;
        self.assert_paid(purse.address, before, &case).await;

        let text = |name: &str| told["header"][name].as_str().expect("text");
        let shown = self.show(&self.url(path), text("name"), text("value")).await;
        let challenge = match shown.headers().get("payment-required").cloned() {
            Some(header) => opened(header.to_str().expect("text")),
            None => shown.json().await.expect("JSON"),
        };
        assert_eq!(challenge["error"], again, "{case}: {challenge}");
        self.assert_paid(purse.address, before, &case).await;
    }

    /// The shop delivers what is at `path` for a payment that somebody else has signed.
    pub(crate) async fn assert_sells(&self, path: &str, payer: Address, header: (&str, &str)) {
        let sold = self.show(&self.url(path), header.0, header.1).await;
        assert_eq!(sold.status(), 200, "{path}");
        let said = |name| sold.headers().get(name).cloned();
        let receipt = said("payment-response").or_else(|| said("x-payment-response"));
        let receipt = opened(receipt.expect("a receipt").to_str().expect("text"));
        self.assert_receipt(&receipt, payer).await;
        let body: Value = sold.json().await.expect("JSON");
        assert_eq!(body["content"], "what was paid for", "{path}");
    }

    /// Shows a shop a payment.
    pub(crate) async fn show(&self, url: &str, name: &str, value: &str) -> reqwest::Response {
        self.client.get(url).header(name, value).send().await.expect("an answer")
    }

    /// Once what it costs has gone from payer to shop since `before`.
    pub(crate) async fn assert_paid(&self, payer: Address, before: (U256, U256), case: &str) {
        let price = U256::from(PRICE);
        let paid = (before.0 - price, before.1 + price);
        assert_eq!(self.balances(payer).await, paid, "{case}: paid once");
    }

    /// The receipt names its payer, and a transaction of the facilitator that has succeeded.
    async fn assert_receipt(&self, receipt: &Value, payer: Address) {
        assert_eq!(receipt["success"], true, "{receipt}");
        let said: Address = receipt["payer"].as_str().expect("text").parse().expect("an address");
        assert_eq!(said, payer, "{receipt}");
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
