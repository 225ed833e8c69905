//! The scheme `batch-settlement` with shops and customers of third parties: unmodified official packages open, use
//! and close payment channels through our facilitator.

use alloy_primitives::{B256, U256};
use bursar_core::networks::ChainId;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::offers::decode_header;
use bursar_tests::payer::Payer;
use bursar_tests::sdk::Framework;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::facilitator::channel::ESCROW;
use crate::facilitator::market::{
    CONTENT, FETCH_V2, HTTPX_CLIENT, Market, PRICE, PayerAccount, REQUESTS_CLIENT, explicit_price,
};
use crate::facilitator::stage::{BASE, ROBINHOOD, SHOP, Stage};

/// The shop's API key; used if the facilitator is the authorizer.
const API_KEY: &str = "a shop's key";

/// Amount of one deposit: the price of four requests.
const DEPOSIT: u64 = 4 * PRICE;

/// The party whose key signs claims and refunds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authorizer {
    Shop,
    Facilitator,
}

impl Authorizer {
    /// Starts a facilitator on a chain; `None` if the chain's programs are missing.
    async fn stage(self, chain: ChainId) -> Option<Stage> {
        if self == Self::Shop {
            return Stage::with_authorizer(chain).await;
        }
        let digest = hex::encode(Sha256::digest(API_KEY));
        let key = format!("name = \"shop\", sha256 = \"{digest}\", receivers = [\"{SHOP}\"]");
        let chain = full_chain_or_skip(chain).await?;
        let more = "authorizer = \"authorizer.key\"";
        Some(Stage::on(chain, 1, &format!("api_keys = [{{ {key} }}]"), more).await)
    }
}

/// The token balances that a channel can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Balances {
    payer: U256,
    escrow: U256,
    shop: U256,
}

/// A market with one customer, and the expected balances of both sides and the escrow.
struct ChannelMarket {
    market: Market,
    client: &'static str,
    account: PayerAccount,
    expected: Balances,
}

/// The items: one paid by EIP-3009 deposits, one by Permit2 deposits. Both are paid from one channel.
fn routes(stage: &Stage, authorizer: Authorizer) -> Value {
    let network = stage.network();
    let route = |method: &str| {
        let mut price = explicit_price(stage);
        price["extra"]["assetTransferMethod"] = json!(method);
        json!({
            "scheme": "batch-settlement", "network": network.caip2(), "price": price,
            "extra": { "minDeposit": DEPOSIT.to_string() },
        })
    };
    let mut routes = json!({
        "v2": { "/eip3009": route("eip3009"), "/permit2": route("permit2") },
        "channels": {
            "network": network.caip2(), "asset": network.stablecoin.address,
        },
    });
    match authorizer {
        Authorizer::Shop => routes["channels"]["key"] = json!(Payer::random().key()),
        Authorizer::Facilitator => routes["apiKey"] = json!(API_KEY),
    }
    routes
}

impl ChannelMarket {
    async fn open(
        stage: Stage,
        (framework, authorizer): (Framework, Authorizer),
        client: &'static str,
    ) -> Self {
        let routes = routes(&stage, authorizer);
        let market = Market::with_client(stage, framework, client, routes).await;
        let account = PayerAccount::of(&market.stage.payer().await);
        let expected = balances(&market, &account).await;
        Self { market, client, account, expected }
    }

    /// Replaces the customer by a new one.
    async fn next_customer(&mut self) {
        self.account = PayerAccount::of(&self.market.stage.payer().await);
        self.expected = balances(&self.market, &self.account).await;
    }

    /// Asserts that the chain holds the expected balances.
    async fn assert_balances(&self, step: &str) {
        let found = balances(&self.market, &self.account).await;
        assert_eq!(found, self.expected, "{step}");
    }

    /// Buys an item; returns the receipt.
    async fn buy(&mut self, path: &str, step: &str) -> Value {
        let url = self.market.url(path);
        let answer = self.market.order(self.client, &url, &self.account).await;
        assert_eq!(answer["status"], 200, "{step}: {answer}");
        assert_eq!(answer["body"]["content"], CONTENT, "{step}");
        answer["receipt"].clone()
    }

    /// Buys an item with a deposit.
    async fn buy_with_deposit(&mut self, path: &str, step: &str) {
        let receipt = self.buy(path, step).await;
        self.market.assert_receipt(&receipt, self.account.address).await;
        assert_eq!(receipt["amount"], DEPOSIT.to_string(), "{step}: {receipt}");
        assert_eq!(receipt["extra"]["chargedAmount"], PRICE.to_string(), "{step}: {receipt}");
        self.expected.payer -= U256::from(DEPOSIT);
        self.expected.escrow += U256::from(DEPOSIT);
        self.assert_balances(step).await;
    }

    /// Buys an item with a voucher, `charged` in total; no transaction is sent.
    async fn buy_with_voucher(&mut self, charged: u64, step: &str) {
        let block = block_number(&self.market).await;
        let receipt = self.buy("/eip3009", step).await;
        assert_eq!((&receipt["success"], &receipt["transaction"]), (&json!(true), &json!("")));
        let state = &receipt["extra"]["channelState"];
        assert_eq!(state["chargedCumulativeAmount"], charged.to_string(), "{step}: {receipt}");
        assert_eq!(block_number(&self.market).await, block, "{step}");
        self.assert_balances(step).await;
    }

    /// Lets the shop's manager do a job, in one transaction.
    async fn run_manager_job(&mut self, job: &str, step: &str) -> Value {
        let outcome = self.market.manage_channels(job).await;
        let done = if outcome.is_array() { &outcome[0] } else { &outcome };
        let hash = done["transaction"].as_str().unwrap_or_else(|| panic!("{step}: {outcome}"));
        assert!(hash.parse::<B256>().is_ok(), "{step}: {outcome}");
        outcome
    }

    /// Lets the shop pay out claimed amounts.
    async fn pay_out_claims(&mut self, amount: u64, step: &str) {
        self.run_manager_job("settle", step).await;
        self.expected.escrow -= U256::from(amount);
        self.expected.shop += U256::from(amount);
        self.assert_balances(step).await;
    }

    /// Lets the customer request a refund, of which it receives `amount`.
    async fn request_refund(&mut self, asked: Option<u64>, amount: u64, step: &str) {
        let url = self.market.url("/eip3009");
        let answer = self.market.order_refund(self.client, &url, &self.account, asked).await;
        let receipt = &answer["receipt"];
        assert!(receipt.is_object(), "{step}: {answer}");
        self.market.assert_receipt(receipt, self.account.address).await;
        assert_eq!(receipt["amount"], amount.to_string(), "{step}: {receipt}");
        self.assert_returned(amount, step).await;
    }

    /// Asserts that the escrow has returned this amount to the customer.
    async fn assert_returned(&mut self, amount: u64, step: &str) {
        self.expected.escrow -= U256::from(amount);
        self.expected.payer += U256::from(amount);
        self.assert_balances(step).await;
    }

    /// Asserts that the shop refuses the customer's payment with this code.
    async fn assert_payment_refused(&mut self, code: &str, step: &str) {
        let served = self.market.paid_handler_runs().await;
        let url = self.market.url("/eip3009");
        let answer = self.market.order(self.client, &url, &self.account).await;
        assert_eq!(answer["status"], 402, "{step}: {answer}");
        let challenge = answer["challenge"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(decode_header(challenge)["error"], code, "{step}");
        assert_eq!(self.market.paid_handler_runs().await, served, "{step}: no handler ran");
        self.assert_balances(step).await;
    }
}

async fn balances(market: &Market, account: &PayerAccount) -> Balances {
    let stage = &market.stage;
    Balances {
        payer: stage.balance(account.address).await,
        escrow: stage.balance(ESCROW).await,
        shop: stage.balance(SHOP).await,
    }
}

async fn block_number(market: &Market) -> Value {
    market.stage.chain.request("eth_blockNumber", json!([])).await.expect("a number")
}

/// Plays every step of a channel's life between one shop and two customers.
async fn play_channel_life(chain: ChainId, framework: Framework, client: &'static str) {
    play_channel_life_with(Authorizer::Shop, chain, framework, client).await;
}

async fn play_channel_life_with(
    authorizer: Authorizer,
    chain: ChainId,
    framework: Framework,
    client: &'static str,
) {
    let Some(stage) = authorizer.stage(chain).await else { return };
    let mut shop = ChannelMarket::open(stage, (framework, authorizer), client).await;
    let first = shop.expected;

    shop.buy_with_deposit("/eip3009", "deposit with the first request").await;
    for n in 2..=4 {
        shop.buy_with_voucher(n * PRICE, "another request").await;
    }
    shop.buy_with_deposit("/permit2", "top-up with the fifth request").await;
    let claims = shop.run_manager_job("claim", "claim").await;
    assert_eq!((claims.as_array().map(Vec::len), &claims[0]["vouchers"]), (Some(1), &json!(1)));
    shop.assert_balances("a claim moves no token").await;
    assert_eq!(shop.market.manage_channels("claim").await, json!([]), "nothing is left to claim");
    shop.pay_out_claims(5 * PRICE, "payout").await;
    let error = shop.market.manage_channels("settle").await["error"].clone();
    let error = error.as_str().unwrap_or_default();
    assert!(error.starts_with("Settle failed: duplicate_settlement"), "{error}");

    // The first refund claims nothing new, the second claims the last request.
    shop.request_refund(Some(PRICE / 2), PRICE / 2, "refund of a part to the customer").await;
    shop.buy_with_voucher(6 * PRICE, "a request after the refund").await;
    shop.run_manager_job("refund", "refund of the rest by the shop").await;
    shop.assert_returned(2 * DEPOSIT - 6 * PRICE - PRICE / 2, "refund of the rest by the shop")
        .await;
    shop.assert_payment_refused(
        "invalid_batch_settlement_evm_cumulative_exceeds_balance",
        "a voucher after the refund",
    )
    .await;
    shop.pay_out_claims(PRICE, "last payout").await;
    let last = Balances {
        payer: first.payer - U256::from(6 * PRICE),
        escrow: first.escrow,
        shop: first.shop + U256::from(6 * PRICE),
    };
    assert_eq!(shop.expected, last, "every unit is accounted for");

    // A customer withdraws everything and returns: its client starts at zero and recovers the state from the chain.
    shop.next_customer().await;
    shop.buy_with_deposit("/eip3009", "deposit of the second customer").await;
    shop.request_refund(None, DEPOSIT - PRICE, "refund of the rest to the customer").await;
    shop.buy_with_deposit("/eip3009", "deposit into the same channel").await;
    shop.buy_with_voucher(3 * PRICE, "a request in the reopened channel").await;
    shop.request_refund(None, DEPOSIT - 2 * PRICE, "second refund of the rest").await;
    shop.pay_out_claims(3 * PRICE, "payout of the second customer").await;
    assert_eq!(shop.expected.escrow, first.escrow, "every unit is accounted for");
    shop.market.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_keeps_channels_of_customers_with_fetch_on_base() {
    play_channel_life(BASE, Framework::Express, FETCH_V2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn express_keeps_channels_of_customers_with_fetch_on_robinhood() {
    play_channel_life(ROBINHOOD, Framework::Express, FETCH_V2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fastapi_keeps_channels_of_customers_in_python() {
    play_channel_life(BASE, Framework::FastApi, HTTPX_CLIENT).await;
    play_channel_life(ROBINHOOD, Framework::FastApi, REQUESTS_CLIENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shops_without_an_authorizer_use_the_facilitators() {
    let by = Authorizer::Facilitator;
    play_channel_life_with(by, BASE, Framework::Express, FETCH_V2).await;
    play_channel_life_with(by, ROBINHOOD, Framework::FastApi, HTTPX_CLIENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shops_keep_channels_of_customers_in_another_language() {
    play_channel_life(BASE, Framework::FastApi, FETCH_V2).await;
    play_channel_life(ROBINHOOD, Framework::Express, HTTPX_CLIENT).await;
}
