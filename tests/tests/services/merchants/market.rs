//! A chain, a facilitator behind a recorder, and merchants that share a payee.

use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_core::networks::{ChainId, Network};
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::{Facilitator, FacilitatorHome};
use bursar_tests::payer::{Payer, SignedPayment, TransferMethod, random_word};
use bursar_tests::sdk::Framework;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::merchants::merchant::{Merchant, MerchantAnswer};
use crate::merchants::recorder::Recorder;

pub(crate) const BASE: ChainId = ChainId(8453);
/// The price of every item, in the token's smallest units.
pub(crate) const PRICE: u64 = 12_000;
/// Code of a payment whose transaction a node has, but which is not in a block yet.
pub(crate) const PENDING: &str = "settlement_pending";
/// A payer's initial balance, in the token's smallest units.
pub(crate) const PAYER_BALANCE: u128 = 100_000_000;
/// The longest wait for a condition.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two checks of a condition.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for a condition, and fails the test at the deadline.
pub(crate) async fn wait_within_deadline<T>(
    condition: &str,
    reached: impl Future<Output = T>,
) -> T {
    timeout(WAIT_TIMEOUT, reached).await.unwrap_or_else(|_late| panic!("no {condition} in time"))
}

#[derive(Debug)]
pub(crate) struct Market {
    pub(crate) chain: Devnet,
    pub(crate) recorder: Recorder,
    pub(crate) merchants: Vec<Merchant>,
    pub(crate) payee: Address,
    home: FacilitatorHome,
    facilitator: Facilitator,
}

impl Market {
    /// Opens a market on a new chain; `settings` are general settings of the facilitator.
    pub(crate) async fn open(frameworks: &[Framework], settings: &str) -> Option<Self> {
        let chain = full_chain_or_skip(BASE).await?;
        let node = chain.url().to_owned();
        Some(Self::with_node(chain, &node, frameworks, settings).await)
    }

    /// Opens a market whose facilitator uses the node at `node`.
    pub(crate) async fn with_node(
        chain: Devnet,
        node: &str,
        frameworks: &[Framework],
        settings: &str,
    ) -> Self {
        let home = FacilitatorHome::new(chain.network(), node, 1, settings, "");
        set_coin(&chain, &home, ample_coin()).await;
        // A new chain has no earlier blocks, and later blocks become final only after these.
        chain.mine(12).await.expect("mined");
        let facilitator = home.start().await;
        let recorder = Recorder::in_front_of(&facilitator.url, &chain).await;
        let payee = Address::from_word(random_word());
        let settings = shop_settings(&recorder.url, payee, chain.network());
        let starting = frameworks.iter().map(|framework| Merchant::start(*framework, &settings));
        let merchants = futures::future::join_all(starting).await;
        Self { chain, recorder, merchants, payee, home, facilitator }
    }

    /// Signs a payment of the price by a payer with enough money.
    pub(crate) async fn payment(&self) -> SignedPayment {
        let payer = Payer::random();
        self.chain.mint(payer.address(), PAYER_BALANCE).await.expect("minted");
        let terms = payer.terms(self.chain.network(), self.payee, PRICE);
        payer.pay(TransferMethod::Eip3009, &terms)
    }

    /// Sends a new payment to a merchant once.
    pub(crate) async fn buy(&self, merchant: &Merchant) -> (SignedPayment, MerchantAnswer) {
        let paid = self.payment().await;
        let answer = merchant.pay(&merchant.header(&paid).await).await;
        (paid, answer)
    }

    /// Sends new payments to a merchant until it delivers; returns the refused ones.
    pub(crate) async fn buy_until_delivered(&self, merchant: &Merchant) -> Vec<SignedPayment> {
        let mut refused = Vec::new();
        let delivered = async {
            loop {
                let (paid, answer) = self.buy(merchant).await;
                if answer.delivered {
                    break;
                }
                refused.push(paid);
                sleep(POLL_INTERVAL).await;
            }
        };
        wait_within_deadline("delivery", delivered).await;
        refused
    }

    /// Repeats a pending payment until its outcome is known.
    pub(crate) async fn repeat_until_final(
        &self,
        merchant: &Merchant,
        header: &str,
        mut answer: MerchantAnswer,
    ) -> MerchantAnswer {
        let end = async {
            while answer.reason == PENDING {
                answer = merchant.pay(header).await;
            }
            answer
        };
        wait_within_deadline("end of a pending payment", end).await
    }

    /// Returns the number of payments that the payee has received.
    pub(crate) async fn charges(&self) -> u64 {
        let balance = self.chain.balance_of(self.payee).await.expect("a balance");
        let (charges, rest) = balance.div_rem(U256::from(PRICE));
        assert_eq!(rest, U256::ZERO, "everything has the same price");
        charges.to()
    }

    /// Returns whether a payment was charged.
    pub(crate) async fn is_charged(&self, paid: &SignedPayment) -> bool {
        let (from, nonce) = (paid.terms.from, paid.terms.nonce);
        self.chain.is_authorization_used(from, nonce).await.expect("an answer")
    }

    /// Asserts that no mined transaction of the facilitator reverted.
    pub(crate) async fn assert_none_reverted(&self) {
        let signer = self.home.signers[0].to_string().to_lowercase();
        let newest = self.chain.request("eth_blockNumber", json!([])).await.expect("an answer");
        let newest: U256 = serde_json::from_value(newest).expect("a number");
        let (mut sent, mut reverted) = (0, Vec::new());
        for block in 0..=newest.to::<u64>() {
            let asked = json!([format!("{block:#x}")]);
            let answer =
                self.chain.request("eth_getBlockReceipts", asked).await.expect("an answer");
            let receipts = answer.as_array().map(Vec::as_slice).unwrap_or_default();
            for receipt in receipts.iter().filter(|receipt| receipt["from"] == signer) {
                sent += 1;
                if receipt["status"] != "0x1" {
                    reverted.push(receipt["transactionHash"].clone());
                }
            }
        }
        assert_eq!(sent, self.mined_count().await, "the receipts of all of them");
        assert!(sent > 0 && reverted.is_empty(), "of {sent} reverted {reverted:?}");
    }

    pub(crate) async fn assert_none_charged(&self, refused: &[SignedPayment]) {
        for paid in refused {
            assert!(!self.is_charged(paid).await, "a refused payment was charged: {paid:?}");
        }
    }

    pub(crate) async fn drain_signer(&self) {
        set_coin(&self.chain, &self.home, U256::ZERO).await;
    }

    pub(crate) async fn fund_signer(&self) {
        set_coin(&self.chain, &self.home, ample_coin()).await;
    }

    /// Waits until the signer has a transaction in the pool beyond the `mined` ones.
    pub(crate) async fn wait_for_broadcast(&self, mined: u64) {
        wait_for_broadcast(&self.chain, self.home.signers[0], mined).await;
    }

    /// Returns the number of the signer's mined transactions.
    pub(crate) async fn mined_count(&self) -> u64 {
        transaction_count(&self.chain, self.home.signers[0], "latest").await
    }

    /// Mines until the facilitator has no open payment, and then a few more blocks, so that
    /// no later charge is possible.
    pub(crate) async fn mine_until_quiet(&self) {
        let settled = async {
            while self.open_payments().await > 0 {
                self.chain.mine(1).await.expect("mined");
                sleep(POLL_INTERVAL).await;
            }
        };
        wait_within_deadline("end of all payments", settled).await;
        self.chain.mine(8).await.expect("mined");
    }

    /// Returns the sum of `facilitator_open_payments` over all labels.
    async fn open_payments(&self) -> u64 {
        let address = self.facilitator.running.metrics_address.expect("metrics");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let answer = client.get(format!("http://{address}/metrics")).send().await;
        let text = answer.expect("an answer").text().await.expect("text");
        let lines = text.lines().filter(|line| line.starts_with("facilitator_open_payments"));
        let counts = lines.map(|line| {
            let count = line.rsplit(' ').next().expect("a value");
            count.parse::<u64>().unwrap_or_else(|_other| panic!("{line}"))
        });
        let counts: Vec<u64> = counts.collect();
        assert!(!counts.is_empty(), "{text}");
        counts.iter().sum()
    }

    pub(crate) async fn close(self) {
        self.facilitator.stop().await;
    }
}

/// Returns the settings of a shop that sells one item at the price.
pub(crate) fn shop_settings(facilitator: &str, payee: Address, network: &Network) -> Value {
    let coin = &network.stablecoin;
    let price = json!({
        "amount": PRICE.to_string(), "asset": coin.address.to_checksum(None),
        "extra": { "name": coin.domain_name, "version": coin.domain_version },
    });
    json!({
        "facilitator": facilitator, "payTo": payee.to_checksum(None),
        "v2": { "/thing": { "network": network.caip2(), "price": price } },
    })
}

/// Returns a signer's transaction count at `tag`: sent (`pending`) or mined (`latest`).
pub(crate) async fn transaction_count(chain: &Devnet, signer: Address, tag: &str) -> u64 {
    let count = chain.request("eth_getTransactionCount", json!([signer, tag])).await;
    let count: U256 = serde_json::from_value(count.expect("an answer")).expect("a number");
    count.to()
}

/// Waits until a signer has sent more than `count` transactions.
pub(crate) async fn wait_for_broadcast(chain: &Devnet, signer: Address, count: u64) {
    let sent = async {
        while transaction_count(chain, signer, "pending").await <= count {
            sleep(POLL_INTERVAL).await;
        }
    };
    wait_within_deadline("broadcast", sent).await;
}

pub(crate) fn ample_coin() -> U256 {
    U256::from(10).pow(U256::from(20))
}

pub(crate) async fn set_coin(chain: &Devnet, home: &FacilitatorHome, wei: U256) {
    for signer in &home.signers {
        chain.request("anvil_setBalance", json!([signer, wei])).await.expect("set");
    }
}
