//! A shop and a customer that use the protocol's own unmodified packages, with our facilitator between them.

use alloy_primitives::{Address, B256, U256};
use bursar_tests::offers::decode_header;
use bursar_tests::payer::Payer;
use bursar_tests::sdk::{Framework, Script};
use serde_json::{Value, json};

use crate::facilitator::stage::{SHOP, Stage};

/// Price of every item in smallest units, and the form that the packages use for a known token.
pub(crate) const PRICE: u64 = 12_000;
pub(crate) const PRICE_IN_DOLLARS: &str = "$0.012";

/// Client packages of npm.
pub(crate) const FETCH_V2: &str = "@x402/fetch";
pub(crate) const FETCH_V1: &str = "x402-fetch";
/// Clients of PyPI's x402, by the library that they extend.
pub(crate) const HTTPX_CLIENT: &str = "httpx";
pub(crate) const REQUESTS_CLIENT: &str = "requests";

/// The content of every item.
pub(crate) const CONTENT: &str = "what was paid for";

/// A shop and a customer of official packages.
#[derive(Debug)]
pub(crate) struct Market {
    pub(crate) stage: Stage,
    shop: Script,
    buyer: Script,
    client: reqwest::Client,
}

impl Market {
    /// Starts a shop with Express and a customer with Node; `routes` are the shop's items, by protocol version.
    pub(crate) async fn open(stage: Stage, routes: Value) -> Self {
        Self::with_client(stage, Framework::Express, FETCH_V2, routes).await
    }

    /// Starts a shop, and the customer's program that has `client`.
    pub(crate) async fn with_client(
        stage: Stage,
        framework: Framework,
        client: &str,
        routes: Value,
    ) -> Self {
        let shop = start_shop(framework, &stage.facilitator.url, routes).await;
        let buyer = match client {
            HTTPX_CLIENT | REQUESTS_CLIENT => Script::start_python("buyer.py", &[]).await,
            _npm => Script::start("buyer.mjs", &[]).await,
        };
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { stage, shop, buyer, client }
    }

    /// Replaces the shop by one that uses the facilitator at this URL.
    pub(crate) async fn replace_shop(
        &mut self,
        framework: Framework,
        facilitator: &str,
        routes: Value,
    ) {
        self.shop = start_shop(framework, facilitator, routes).await;
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.shop.ready_text)
    }

    pub(crate) async fn balances(&self, payer: Address) -> (U256, U256) {
        (self.stage.balance(payer).await, self.stage.balance(SHOP).await)
    }

    /// Sends the customer to a shop; returns the outcome, with the payment header that it sent.
    pub(crate) async fn order(&mut self, client: &str, url: &str, account: &PayerAccount) -> Value {
        self.send_order(client, url, account, Value::Null).await
    }

    /// Sends the customer to a shop for a refund from its payment channel; without an amount, for all that is left.
    pub(crate) async fn order_refund(
        &mut self,
        client: &str,
        url: &str,
        account: &PayerAccount,
        amount: Option<u64>,
    ) -> Value {
        let refund = amount.map_or(json!({}), |amount| json!({ "amount": amount.to_string() }));
        self.send_order(client, url, account, refund).await
    }

    async fn send_order(
        &mut self,
        client: &str,
        url: &str,
        account: &PayerAccount,
        refund: Value,
    ) -> Value {
        let network = self.stage.network();
        let order = json!({
            "client": client, "url": url, "key": account.key, "wallet": account.wallet,
            "allowed": [{ "network": network.caip2(), "asset": network.stablecoin.address }],
            "rpc": self.stage.chain.url(), "refund": refund,
        });
        self.buyer.ask(&order).await
    }

    /// Calls a method of the shop's manager of payment channels.
    pub(crate) async fn manage_channels(&mut self, job: &str) -> Value {
        self.shop.ask(&json!(job)).await
    }

    /// Asserts that a customer buys the item at `path`.
    ///
    /// The item is delivered, paid once on the chain, and the receipt names the transaction. Showing the same payment
    /// again moves nothing, and the shop's error is `again`.
    pub(crate) async fn assert_buys(
        &mut self,
        client: &str,
        path: &str,
        account: PayerAccount,
        again: &str,
    ) {
        let case = format!("{client} at {path}");
        let before = self.balances(account.address).await;
        let answer = self.order(client, &self.url(path), &account).await;
        assert_eq!(answer["status"], 200, "{case}: {answer}");
        assert_eq!(answer["body"]["content"], CONTENT, "{case}");
        self.assert_receipt(&answer["receipt"], account.address).await;
        self.assert_paid(account.address, before, &case).await;

        let refusal = self.refusal(&self.url(path), &answer).await;
        assert_eq!(refusal["error"], again, "{case}: {refusal}");
        self.assert_paid(account.address, before, &case).await;
    }

    /// Asserts that the shop delivers the item at `path` for a payment signed elsewhere.
    pub(crate) async fn assert_sells(&self, path: &str, payer: Address, header: (&str, &str)) {
        let sold = self.send_payment_header(&self.url(path), header.0, header.1).await;
        assert_eq!(sold.status(), 200, "{path}");
        let header = |name| sold.headers().get(name).cloned();
        let receipt = header("payment-response").or_else(|| header("x-payment-response"));
        let receipt = decode_header(receipt.expect("a receipt").to_str().expect("text"));
        self.assert_receipt(&receipt, payer).await;
        let body: Value = sold.json().await.expect("JSON");
        assert_eq!(body["content"], CONTENT, "{path}");
    }

    /// Sends the payment of an earlier order to a shop that refuses it; returns the shop's offer with the error.
    pub(crate) async fn refusal(&self, url: &str, order: &Value) -> Value {
        let shown = self.resend_payment(url, order).await;
        match shown.headers().get("payment-required").cloned() {
            Some(header) => decode_header(header.to_str().expect("text")),
            None => shown.json().await.expect("JSON"),
        }
    }

    /// Sends the payment of an earlier order to a shop.
    pub(crate) async fn resend_payment(&self, url: &str, order: &Value) -> reqwest::Response {
        let text = |name: &str| order["header"][name].as_str().unwrap_or_else(|| panic!("{order}"));
        self.send_payment_header(url, text("name"), text("value")).await
    }

    /// Returns how often the shop's paid handlers ran.
    pub(crate) async fn paid_handler_runs(&self) -> u64 {
        let answer = self.client.get(self.url("/served")).send().await.expect("an answer");
        let answer: Value = answer.json().await.expect("JSON");
        answer["served"].as_u64().unwrap_or_else(|| panic!("{answer}"))
    }

    /// Sends a payment header to a shop.
    pub(crate) async fn send_payment_header(
        &self,
        url: &str,
        name: &str,
        value: &str,
    ) -> reqwest::Response {
        self.client.get(url).header(name, value).send().await.expect("an answer")
    }

    /// Asserts that the price moved from payer to shop exactly once since `before`.
    pub(crate) async fn assert_paid(&self, payer: Address, before: (U256, U256), case: &str) {
        self.assert_moved(payer, before, PRICE, case).await;
    }

    /// Asserts that exactly this amount moved from payer to shop since `before`.
    pub(crate) async fn assert_moved(
        &self,
        payer: Address,
        before: (U256, U256),
        amount: u64,
        case: &str,
    ) {
        let amount = U256::from(amount);
        let paid = (before.0 - amount, before.1 + amount);
        assert_eq!(self.balances(payer).await, paid, "{case}: paid once");
    }

    /// Asserts that the receipt names its payer and a successful transaction of the facilitator.
    pub(crate) async fn assert_receipt(&self, receipt: &Value, payer: Address) {
        assert_eq!(receipt["success"], true, "{receipt}");
        let answer: Address = receipt["payer"].as_str().expect("text").parse().expect("an address");
        assert_eq!(answer, payer, "{receipt}");
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

async fn start_shop(framework: Framework, facilitator: &str, routes: Value) -> Script {
    let mut goods = routes;
    goods["facilitator"] = json!(facilitator);
    goods["payTo"] = json!(SHOP);
    framework.start(&goods).await
}

/// The payer's address, and the key that signs for it.
pub(crate) struct PayerAccount {
    pub(crate) address: Address,
    pub(crate) key: String,
    /// Data that the customer's script needs for a contract wallet; null for the key's own address.
    pub(crate) wallet: Value,
}

impl PayerAccount {
    pub(crate) fn of(payer: &Payer) -> Self {
        Self { address: payer.address(), key: payer.key(), wallet: Value::Null }
    }
}

/// Returns the price in a network's dollar token, as an explicit amount and asset.
pub(crate) fn explicit_price(stage: &Stage) -> Value {
    let coin = &stage.network().stablecoin;
    json!({
        "amount": PRICE.to_string(), "asset": coin.address,
        "extra": { "name": coin.domain_name, "version": coin.domain_version },
    })
}
