//! A local chain, our facilitator on it, and a proxy in front of a model that the test controls.

use alloy_primitives::{Address, B256, U256, keccak256};
use bursar_core::networks::{ChainId, Network};
use bursar_devnet::Devnet;
use bursar_devnet::install::chain_or_skip;
use bursar_tests::facilitator;
use bursar_tests::payer::Payer;
use bursar_tests::proxy::{Customer, Proxy, ProxyHome, SELLER};
use bursar_tests::service::ServiceProcess;
use bursar_tests::upstream::{Behavior, Upstream};
use serde_json::{Value, json};

pub(crate) const BASE: ChainId = ChainId(8453);
pub(crate) const ROBINHOOD: ChainId = ChainId(4663);
/// A payer's initial balance in smallest units: 100 dollars.
pub(crate) const INITIAL_BALANCE: u128 = 100_000_000;

/// The services behind a customer.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) chain: Devnet,
    pub(crate) facilitator_home: facilitator::FacilitatorHome,
    pub(crate) facilitator: ServiceProcess,
    pub(crate) upstream: Upstream,
    _home: ProxyHome,
    pub(crate) proxy: Proxy,
}

impl Stage {
    pub(crate) async fn set_up(chain: ChainId, does: Behavior) -> Option<Self> {
        Self::with(chain, does, "", "").await
    }

    /// Like `set`, with more settings of the facilitator and of the proxy.
    pub(crate) async fn with(
        chain: ChainId,
        does: Behavior,
        facilitator: &str,
        selling: &str,
    ) -> Option<Self> {
        let anvil = chain_or_skip()?;
        let chain = Devnet::start_at(&anvil, chain).await.expect("a chain");
        let facilitator_home =
            facilitator::FacilitatorHome::new(chain.network(), chain.url(), 1, facilitator, "");
        for signer in &facilitator_home.signers {
            let gas = U256::from(10).pow(U256::from(20));
            chain.request("anvil_setBalance", json!([signer, gas])).await.expect("set");
        }
        let facilitator = facilitator_home.start_process(None);
        let upstream = Upstream::serve(does).await;
        let network = format!("network = \"{}\"", chain.network().caip2());
        let network = if selling.contains("network =") { String::new() } else { network };
        let node = if selling.contains("rpc =") {
            String::new()
        } else {
            format!("rpc = [\"{}={}\"]", chain.network().caip2(), chain.url())
        };
        let selling = format!("{network}\n{node}\n{selling}");
        let home = ProxyHome::new(&upstream.url, &facilitator.url, &selling);
        let proxy = home.start().await;
        Some(Self { chain, facilitator_home, facilitator, upstream, _home: home, proxy })
    }

    pub(crate) fn network(&self) -> &'static Network {
        self.chain.network()
    }

    /// Returns the base URL for an OpenAI client.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1", self.proxy.url)
    }

    /// Creates a customer with this balance, in smallest units.
    pub(crate) async fn customer(&self, purse: u128) -> Customer {
        let payer = Payer::random();
        if purse > 0 {
            self.chain.mint(payer.address(), purse).await.expect("minted");
        }
        let mut customer = Customer::of(&self.proxy.url, payer);
        customer.network = self.network();
        customer
    }

    /// Returns the seller's balance, in smallest units.
    pub(crate) async fn earned(&self) -> U256 {
        self.balance(SELLER).await
    }

    pub(crate) async fn balance(&self, owner: Address) -> U256 {
        self.chain.balance_of(owner).await.expect("a balance")
    }

    /// Asserts that the receipt names a mined transaction that moved this amount from payer to seller.
    pub(crate) async fn assert_moved(&self, receipt: &Value, payer: Address, amount: U256) {
        assert_eq!(receipt["success"], true, "{receipt}");
        let answer: Address = receipt["payer"].as_str().expect("text").parse().expect("an address");
        assert_eq!(answer, payer, "{receipt}");
        let hash: B256 = receipt["transaction"].as_str().expect("text").parse().expect("a hash");
        let mined = self.chain.request("eth_getTransactionReceipt", json!([hash])).await;
        let mined = mined.expect("an answer");
        assert_eq!(mined["status"], "0x1", "{mined}");
        let transfer = keccak256("Transfer(address,address,uint256)");
        let topics = json!([transfer, payer.into_word(), SELLER.into_word()]);
        let value = B256::from(amount.to_be_bytes::<32>());
        let moved = |log: &&Value| {
            let from: Address = log["address"].as_str().expect("text").parse().expect("an address");
            from == self.network().stablecoin.address
                && log["topics"] == topics
                && log["data"] == json!(value)
        };
        let logs = mined["logs"].as_array().expect("a list");
        assert_eq!(logs.iter().filter(moved).count(), 1, "{mined}");
    }

    /// Kills the facilitator, and starts another one on its store and at its address.
    pub(crate) fn restart_facilitator(&mut self) {
        self.facilitator.signal(rustix::process::Signal::KILL);
        self.facilitator.wait();
        let settings = std::fs::read_to_string(self.facilitator_home.settings()).expect("settings");
        let address = self.facilitator.url.strip_prefix("http://").expect("a URL");
        let here = settings.replacen("127.0.0.1:0", address, 1);
        std::fs::write(self.facilitator_home.settings(), here).expect("written");
        self.facilitator = self.facilitator_home.start_process(None);
    }

    pub(crate) async fn close(self) {
        self.proxy.stop().await;
    }
}
