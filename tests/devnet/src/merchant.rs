//! A merchant with an x402 paywall, in either version, on a free loopback port. Its payment checks share no
//! code with the wallet, and it settles on a local chain if it has one. Made for tests and the demonstration:
//! it keeps everything that it received until it stops.

mod book;
mod digest;
mod offer;
mod payment;
mod paywall;
mod settling;
mod shop;
mod version;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use bursar_core::networks::{self, ChainId};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::book::Book;
pub use self::book::{Outcome, ReceivedPayment};
pub use self::settling::SettlementMethod;
pub use self::shop::PricedResource;
use self::shop::Shop;
pub use self::version::Version;
use crate::node::Devnet;

/// How long open connections may take to end when the merchant stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a merchant.
#[derive(Debug, Clone)]
pub struct MerchantConfig {
    pub chain: ChainId,
    pub pay_to: Address,
    /// The resource at each path.
    pub goods: BTreeMap<String, PricedResource>,
    /// The way in which payments are settled; without it, only signatures are checked.
    pub settle: Option<SettlementMethod>,
    /// Longest allowed validity of an authorization, in seconds.
    pub max_timeout_s: u64,
}

impl MerchantConfig {
    /// Creates settings without goods and without settlement.
    pub fn new(chain: ChainId, pay_to: Address) -> Self {
        Self { chain, pay_to, goods: BTreeMap::new(), settle: None, max_timeout_s: 60 }
    }

    /// Sells the resource at `path` for `atoms` smallest units, in version 2.
    pub fn sell(self, path: &str, atoms: u128) -> Self {
        self.sell_in(Version::V2, path, atoms)
    }

    /// Sells the resource at `path` for `atoms` smallest units, in the given version.
    pub fn sell_in(mut self, version: Version, path: &str, atoms: u128) -> Self {
        self.goods.insert(path.to_owned(), PricedResource { price: U256::from(atoms), version });
        self
    }

    /// Settles payments on this chain.
    pub fn settle_on(mut self, devnet: Devnet) -> Self {
        self.settle = Some(SettlementMethod::Chain(devnet));
        self
    }

    /// Settles payments through a facilitator; `url` has no trailing slash.
    pub fn settle_through(mut self, url: &str) -> Self {
        let url = url.to_owned();
        self.settle = Some(SettlementMethod::Facilitator { url, client: reqwest::Client::new() });
        self
    }
}

/// The reason for which a merchant cannot start.
#[derive(Debug, thiserror::Error)]
pub enum MerchantError {
    #[error("chain {0} is not in the table of networks")]
    UnknownChain(ChainId),
    #[error("the merchant is on chain {merchant} and settles on chain {devnet}")]
    OtherChain { merchant: ChainId, devnet: ChainId },
    #[error("the merchant's port: {0}")]
    Listen(#[from] std::io::Error),
}

/// A running merchant; it stops when stopped or dropped.
#[derive(Debug)]
pub struct Merchant {
    shop: Arc<Shop>,
    close: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Merchant {
    /// Starts a merchant on a free loopback port.
    ///
    /// # Errors
    /// The chain is unknown or differs from the settlement chain, or no port is available.
    pub async fn serve(config: MerchantConfig) -> Result<Self, MerchantError> {
        let MerchantConfig { chain, pay_to, goods, settle, max_timeout_s } = config;
        let network = networks::by_chain(chain).ok_or(MerchantError::UnknownChain(chain))?;
        if let Some(SettlementMethod::Chain(devnet)) = &settle
            && let other = devnet.network().chain
            && other != chain
        {
            return Err(MerchantError::OtherChain { merchant: chain, devnet: other });
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let book = Book::default();
        let shop = Arc::new(Shop { url, network, pay_to, goods, settle, max_timeout_s, book });
        let (close, closed) = oneshot::channel();
        let served = axum::serve(listener, paywall::router(Arc::clone(&shop)))
            .with_graceful_shutdown(async move {
                // A message means stop, and so does a dropped sender.
                let _word = closed.await;
            });
        let server = tokio::spawn(async move {
            // Accept errors are retried internally, so this future ends only by the graceful stop.
            let _stopped = served.await;
        });
        Ok(Self { shop, close: Some(close), server })
    }

    /// Returns the merchant's URL, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.shop.url
    }

    /// Returns every payment received so far, good or bad, in the order of arrival.
    pub fn payments(&self) -> Vec<ReceivedPayment> {
        self.shop.book.received()
    }

    /// Accepts no new connections and waits for the open ones, for a limited time.
    pub async fn stop(mut self) {
        if let Some(close) = self.close.take() {
            let _already_closed = close.send(());
        }
        // After the limit, `drop` closes the remaining connections.
        let _in_time = timeout(SHUTDOWN_TIMEOUT, &mut self.server).await;
    }
}

impl Drop for Merchant {
    fn drop(&mut self) {
        self.server.abort();
    }
}
