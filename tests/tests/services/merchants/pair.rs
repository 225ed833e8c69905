//! Two sellers of one payee that share a facilitator or have one each. All facilitators and proxies are processes
//! with their own stores, and the facilitators have their own signers.

use std::future::pending;
use std::time::Duration;

use alloy_primitives::{Address, U256, keccak256};
use bursar_devnet::Devnet;
use bursar_devnet::full::full_chain_or_skip;
use bursar_tests::facilitator::FacilitatorHome;
use bursar_tests::payer::{Payer, TransferMethod, now_s};
use bursar_tests::proxy::{Customer, PaymentHeader, ProxyHome, SELLER, chat};
use bursar_tests::sdk::Framework;
use bursar_tests::service::ServiceProcess;
use bursar_tests::upstream::{Behavior, Upstream, answer};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::merchants::market::{
    BASE, PAYER_BALANCE, PRICE, ample_coin, set_coin, shop_settings, transaction_count,
    wait_for_broadcast,
};
use crate::merchants::merchant::{Merchant, MerchantAnswer};

/// The content that the proxies sell.
const SOLD_CONTENT: &str = "hello world";
/// Time between two blocks.
const BLOCK_INTERVAL: Duration = Duration::from_millis(250);
/// Validity of a payment. Each block may move the chain's clock ahead by up to a second.
const VALIDITY_S: u64 = 1_800;

/// The programs that sell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Shops built from the official npm packages: one with Hono, one with Express.
    Shop,
    /// Our proxy.
    Proxy,
}

/// The times at which the two sellers receive a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Both sellers receive the payment at once, and the chain mines each transaction immediately.
    Together,
    /// Both sellers receive the payment at once, and no block is mined before each facilitator has broadcast its
    /// transaction.
    BeforeBlock,
    /// Like `BeforeBlock`, but only one block is mined. On Base a transaction is final after two.
    InLastBlock,
    /// The second seller receives the payment after the first has answered.
    FirstThenSecond,
    SecondThenFirst,
}

/// One of the two sellers.
#[derive(Debug)]
enum Seller {
    Shop(Box<Merchant>),
    Proxy { process: ServiceProcess, _home: ProxyHome },
}

impl Seller {
    async fn start(
        program: Program,
        framework: Framework,
        facilitator: &str,
        (chain, upstream): (&Devnet, &Upstream),
    ) -> Self {
        match program {
            Program::Shop => {
                let settings = shop_settings(facilitator, SELLER, chain.network());
                Self::Shop(Box::new(Merchant::start(framework, &settings).await))
            }
            Program::Proxy => {
                let network = chain.network().caip2();
                let more =
                    format!("network = \"{network}\"\nrpc = [\"{network}={}\"]", chain.url());
                let home = ProxyHome::new(&upstream.url, facilitator, &more);
                Self::Proxy { process: home.start_process(None), _home: home }
            }
        }
    }

    /// Signs a payment for this seller's offer. Shops offer x402 version 2 only.
    async fn sign(&self, payer: Payer, version: u64, chain: &Devnet) -> PaymentHeader {
        match self {
            Self::Shop(merchant) => {
                let mut terms = payer.terms(chain.network(), SELLER, PRICE);
                terms.valid_before_s = now_s() + VALIDITY_S;
                let paid = payer.pay(TransferMethod::Eip3009, &terms);
                let value = merchant.header(&paid).await;
                PaymentHeader { name: "payment-signature", value, terms }
            }
            Self::Proxy { process, .. } => {
                let customer = Customer::of(&process.url, payer);
                let challenge = customer.ask(&chat("hello")).await;
                customer.sign_with(version, &challenge, |terms| {
                    terms.valid_before_s = now_s() + VALIDITY_S;
                })
            }
        }
    }

    /// Sends a payment to this seller.
    async fn pay(&self, header: &PaymentHeader) -> MerchantAnswer {
        match self {
            Self::Shop(merchant) => merchant.pay(&header.value).await,
            Self::Proxy { process, .. } => {
                let customer = Customer::of(&process.url, Payer::random());
                let response = customer.send(&chat("hello"), header).await;
                MerchantAnswer::of("proxy", SOLD_CONTENT, response).await
            }
        }
    }
}

/// The answers of both sellers to one payment, and its effect on the chain.
#[derive(Debug)]
pub(crate) struct Sale {
    pub(crate) answers: [MerchantAnswer; 2],
    /// The answers of the sellers that did not deliver, when they receive the payment again.
    pub(crate) repeats: Vec<MerchantAnswer>,
    /// The transactions that moved the payer's money to the payee.
    pub(crate) transfers: Vec<String>,
}

/// Two sellers with their facilitators and upstream, and a chain.
#[derive(Debug)]
pub(crate) struct Pair {
    chain: Devnet,
    sellers: [Seller; 2],
    facilitators: Vec<(FacilitatorHome, ServiceProcess)>,
    _upstream: Upstream,
}

impl Pair {
    /// Starts two sellers and this number of facilitators, whose general settings are `settings`.
    pub(crate) async fn open(program: Program, facilitators: u8, settings: &str) -> Option<Self> {
        let chain = full_chain_or_skip(BASE).await?;
        // A new chain has no earlier blocks, and later blocks become final only after these.
        chain.mine(12).await.expect("mined");
        let mut started = Vec::new();
        for n in 0..facilitators {
            let (network, node) = (chain.network(), chain.url());
            let home = FacilitatorHome::with_signers(network, node, n..n + 1, settings, "");
            set_coin(&chain, &home, ample_coin()).await;
            let process = home.start_process(None);
            started.push((home, process));
        }
        let upstream = Upstream::serve(Behavior::Whole(answer(SOLD_CONTENT))).await;
        let (first, last) = (&started[0].1.url, &started[started.len() - 1].1.url);
        let around = (&chain, &upstream);
        let (one, other) = tokio::join!(
            Seller::start(program, Framework::Hono, first, around),
            Seller::start(program, Framework::Express, last, around),
        );
        let sellers = [one, other];
        Some(Self { chain, sellers, facilitators: started, _upstream: upstream })
    }

    /// Sends one payment to both sellers. The seller with the index `signed_for` made the offer that the payer signs.
    pub(crate) async fn send_to_both(&self, order: Order, signed_for: usize, version: u64) -> Sale {
        let payer = Payer::random();
        let account = payer.address();
        self.chain.mint(account, PAYER_BALANCE).await.expect("minted");
        let header = self.sellers[signed_for].sign(payer, version, &self.chain).await;
        let answers = match order {
            Order::BeforeBlock | Order::InLastBlock => {
                self.pay_both_before_a_block(order, &header, signed_for).await
            }
            // cancel-safe: only the mining stops.
            _mines_at_once => tokio::select! {
                answers = self.pay_in_order(order, &header, signed_for) => answers,
                () = self.keep_mining() => panic!("the chain has stopped"),
            },
        };
        let mut repeats = Vec::new();
        for (seller, _refused) in
            self.sellers.iter().zip(&answers).filter(|(_seller, answer)| !answer.delivered)
        {
            repeats.push(seller.pay(&header).await);
        }
        let transfers = self.transfers(account).await;
        let spent = U256::from(PAYER_BALANCE) - self.chain.balance_of(account).await.expect("one");
        let due = header.terms.amount * U256::from(transfers.len());
        assert_eq!(spent, due, "{order:?}: {answers:?}");
        Sale { answers, repeats, transfers }
    }

    async fn pay_in_order(
        &self,
        order: Order,
        header: &PaymentHeader,
        first: usize,
    ) -> [MerchantAnswer; 2] {
        let [one, other] = &self.sellers;
        match order {
            Order::Together | Order::BeforeBlock | Order::InLastBlock => {
                self.pay_both(header, first).await
            }
            Order::FirstThenSecond => {
                let answer = one.pay(header).await;
                [answer, other.pay(header).await]
            }
            Order::SecondThenFirst => {
                let answer = other.pay(header).await;
                [one.pay(header).await, answer]
            }
        }
    }

    /// Sends a payment to both sellers at once, in this order.
    async fn pay_both(&self, header: &PaymentHeader, first: usize) -> [MerchantAnswer; 2] {
        let [one, other] = &self.sellers;
        if first == 0 {
            tokio::join!(one.pay(header), other.pay(header)).into()
        } else {
            let (other, one) = tokio::join!(other.pay(header), one.pay(header));
            [one, other]
        }
    }

    async fn pay_both_before_a_block(
        &self,
        order: Order,
        header: &PaymentHeader,
        first: usize,
    ) -> [MerchantAnswer; 2] {
        let signers = || self.facilitators.iter().map(|(home, _process)| home.signers[0]);
        let mut sent = Vec::new();
        for signer in signers() {
            sent.push(transaction_count(&self.chain, signer, "latest").await);
        }
        self.chain.set_automine(false).await.expect("set");
        let mines = async {
            for (signer, sent) in signers().zip(sent) {
                wait_for_broadcast(&self.chain, signer, sent).await;
            }
            self.chain.mine(1).await.expect("mined");
            self.chain.set_automine(true).await.expect("set");
            match order {
                Order::InLastBlock => pending().await,
                _blocks_follow => self.keep_mining().await,
            }
        };
        // cancel-safe: only the mining stops.
        tokio::select! {
            answers = self.pay_both(header, first) => answers,
            () = mines => panic!("the chain has stopped"),
        }
    }

    /// Mines blocks without end, because a payment that a transaction did not make is decided only by later blocks.
    async fn keep_mining(&self) {
        while self.chain.mine(1).await.is_ok() {
            sleep(BLOCK_INTERVAL).await;
        }
    }

    /// Returns the transactions with a transfer from this payer to the payee.
    async fn transfers(&self, payer: Address) -> Vec<String> {
        let transfer = keccak256("Transfer(address,address,uint256)");
        let filter = json!([{
            "fromBlock": "earliest", "address": self.chain.network().stablecoin.address,
            "topics": [transfer, payer.into_word(), SELLER.into_word()],
        }]);
        let logs = self.chain.request("eth_getLogs", filter).await.expect("an answer");
        let hash = |log: &Value| log["transactionHash"].as_str().expect("a hash").to_owned();
        logs.as_array().expect("a list").iter().map(hash).collect()
    }
}
