//! A chain, a facilitator on it, and funded payers.

use std::time::Duration;

use alloy_primitives::{Address, U256, address};
use bursar_core::networks::{ChainId, Network};
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::{Facilitator, FacilitatorHome, idempotency_key};
use bursar_tests::payer::{PERMIT2, PRISM, Payer, SignedPayment, TransferMethod};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) const BASE: ChainId = ChainId(8453);
pub(crate) const ROBINHOOD: ChainId = ChainId(4663);
pub(crate) const SHOP: Address = address!("0x209693Bc6afc0C5328bA36FaF03C514EF312287C");
/// A payer's initial balance in smallest units: 100 dollars.
pub(crate) const INITIAL_BALANCE: u128 = 100_000_000;

/// Mines blocks in the background until it is dropped.
#[derive(Debug)]
pub(crate) struct MiningGuard(JoinHandle<()>);

impl Drop for MiningGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A facilitator on a full chain.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) chain: Devnet,
    pub(crate) facilitator: Facilitator,
    pub(crate) home: FacilitatorHome,
}

impl Stage {
    pub(crate) async fn set_up(chain: ChainId, signers: u8, general: &str) -> Option<Self> {
        let chain = full_chain_or_skip(chain).await?;
        Some(Self::on(chain, signers, general, "").await)
    }

    /// Sets up a facilitator that signs claims for any caller, so that it lists payment channels.
    pub(crate) async fn with_authorizer(chain: ChainId) -> Option<Self> {
        let chain = full_chain_or_skip(chain).await?;
        Some(Self::on(chain, 1, "", "authorizer = \"authorizer.key\"").await)
    }

    pub(crate) async fn on(chain: Devnet, signers: u8, general: &str, more: &str) -> Self {
        let node = chain.url().to_owned();
        Self::with_node(chain, &node, signers, general, more).await
    }

    /// Like `on`, but with `node` as the facilitator's endpoint.
    pub(crate) async fn with_node(
        chain: Devnet,
        node: &str,
        signers: u8,
        general: &str,
        more: &str,
    ) -> Self {
        let home = prepared_home(&chain, node, signers, general, more).await;
        let facilitator = home.start().await;
        Self { chain, facilitator, home }
    }

    pub(crate) fn network(&self) -> &'static Network {
        self.chain.network()
    }

    pub(crate) fn coin(&self) -> Address {
        self.network().stablecoin.address
    }

    /// Creates a payer with money that has approved Permit2 and Prism.
    pub(crate) async fn payer(&self) -> Payer {
        let payer = Payer::random();
        self.chain.mint(payer.address(), INITIAL_BALANCE).await.expect("minted");
        for spender in [PERMIT2, PRISM] {
            self.chain.approve_as(payer.address(), self.coin(), spender).await.expect("approved");
        }
        payer
    }

    /// Signs a payment to the shop.
    pub(crate) fn pay(&self, payer: &Payer, method: TransferMethod, amount: u64) -> SignedPayment {
        let mut terms = payer.terms(self.network(), SHOP, amount);
        match method {
            TransferMethod::Prism => terms.nonce = Default::default(),
            TransferMethod::Upto => terms.facilitator = self.home.signers[0],
            TransferMethod::Eip3009 | TransferMethod::Permit2 => {}
        }
        payer.pay(method, &terms)
    }

    /// Mines blocks until the guard is dropped, because a failure is reported only when its block is final.
    pub(crate) fn keep_mining(&self) -> MiningGuard {
        let chain = self.chain.clone();
        MiningGuard(tokio::spawn(async move {
            while chain.mine(1).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }))
    }

    pub(crate) async fn verify(&self, body: &Value) -> Value {
        let (status, answer) = self.facilitator.post("/verify", body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Settles as a merchant that sends an `Idempotency-Key`: its repeats receive the same answer.
    pub(crate) async fn settle(&self, body: &Value) -> Value {
        let (status, answer) =
            self.facilitator.post_with_key("/settle", body, &idempotency_key(body)).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Settles a payment whose outcome may be unknown to every node; in this case the status is 503.
    pub(crate) async fn settle_or_503(&self, body: &Value) -> Value {
        let (status, answer) =
            self.facilitator.post_with_key("/settle", body, &idempotency_key(body)).await;
        let is_unknown = answer["errorReason"] == "unexpected_settle_error";
        assert_eq!(status, if is_unknown { 503 } else { 200 }, "{answer}");
        answer
    }

    /// Settles with the idempotency key of another body.
    pub(crate) async fn settle_with_key_of(&self, body: &Value, first: &Value) -> Value {
        let (status, answer) =
            self.facilitator.post_with_key("/settle", body, &idempotency_key(first)).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Settles without a key, as one of many callers with the same payment.
    pub(crate) async fn settle_without_key(&self, body: &Value) -> Value {
        let (status, answer) = self.facilitator.post("/settle", body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Sets each signer's balance of the native coin, in wei.
    pub(crate) async fn fund_signers(&self, wei: U256) {
        for signer in &self.home.signers {
            self.chain.request("anvil_setBalance", json!([signer, wei])).await.expect("set");
        }
    }

    pub(crate) async fn balance(&self, owner: Address) -> U256 {
        self.chain.balance_of(owner).await.expect("a balance")
    }
}

/// Creates a facilitator's settings on a chain behind `rpc`, with funded signers.
pub(crate) async fn prepared_home(
    chain: &Devnet,
    rpc: &str,
    signers: u8,
    general: &str,
    more: &str,
) -> FacilitatorHome {
    let factory = chain.wallet_factory().await.expect("a factory");
    let more = format!("eip6492_factories = [\"{factory}\"]\n{more}");
    let home = FacilitatorHome::new(chain.network(), rpc, signers, general, &more);
    for signer in &home.signers {
        let gas = U256::from(10).pow(U256::from(20));
        chain.request("anvil_setBalance", json!([signer, gas])).await.expect("set");
        chain.add_prism_facilitator(*signer).await.expect("added");
    }
    // A new chain has no earlier blocks, and later blocks become final only after these.
    chain.mine(12).await.expect("mined");
    home
}
