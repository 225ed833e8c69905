//! Balances of addresses on each network: for display, never for decisions. A balance that cannot be read is reported
//! as unknown with our own reason text, never as zero and never as an empty list.

mod balance_cache;
mod cached;
mod holding;
mod icons;
mod merge;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use bursar_chain::multicall::{Holdings, holdings};
use bursar_chain::ports::{Clock, ExplorerFault, TokenBalance};
use bursar_core::limits::{FUNDS_CACHE_ACCOUNTS_MAX, FUNDS_FRESH_MS, FUNDS_TIMEOUT_MS};
use bursar_core::networks::{ChainId, Network};
use futures::future::{join, join_all};
use tokio::time::{Instant, timeout_at};

use self::balance_cache::BalanceCache;
pub use self::balance_cache::{AccountKey, CachedBalance};
use self::holding::DiscoveryFailure;
pub use self::holding::{Kind, NetworkFunds, TokenHolding, UnknownReason};
pub use self::icons::{KnownIcons, TokenIcons};
use self::merge::{known_tokens, merge, unknown_funds};
use crate::ports::{Chains, Explorers, Ports};

/// The latest lookup of one address on one network. A tokio mutex, because it is held during the lookup: other callers
/// wait for the same answer.
type Slot = tokio::sync::Mutex<Option<(u64, Arc<NetworkFunds>)>>;

/// Looks up the balances of addresses.
///
/// [`Funds::of`] makes at most one query of an address and network at a time, and one in [`FUNDS_FRESH_MS`], so that
/// no agent can flood the nodes through it.
#[derive(Debug)]
pub struct Funds {
    chains: Chains,
    explorers: Explorers,
    clock: Arc<dyn Clock>,
    // A mutex instead of an owning task: it is held only to access the map.
    slots: Mutex<BTreeMap<(Address, ChainId), Arc<Slot>>>,
    cache: BalanceCache,
    icons: Arc<TokenIcons>,
}

impl Funds {
    /// Creates an empty cache over the ports' chains and explorers.
    pub fn new(ports: &Ports) -> Self {
        Self {
            chains: ports.chains.clone(),
            explorers: ports.explorers.clone(),
            clock: Arc::clone(&ports.clock),
            slots: Mutex::default(),
            cache: BalanceCache::default(),
            icons: Arc::new(TokenIcons::new(Arc::clone(&ports.icons), Arc::clone(&ports.clock))),
        }
    }

    /// Returns the icons of tokens.
    pub fn icons(&self) -> &Arc<TokenIcons> {
        &self.icons
    }

    /// Returns the balances of `owner` on each of these networks, in the order of the networks.
    ///
    /// All networks are queried at once; one that does not answer within [`FUNDS_TIMEOUT_MS`] is unknown.
    pub async fn of(&self, owner: Address, on: &[&'static Network]) -> Vec<Arc<NetworkFunds>> {
        let deadline = Instant::now() + Duration::from_millis(FUNDS_TIMEOUT_MS);
        join_all(on.iter().map(|network| self.lookup_one(owner, network, deadline))).await
    }

    async fn lookup_one(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> Arc<NetworkFunds> {
        let slot = self.slot(owner, network.chain);
        let Ok(mut latest) = timeout_at(deadline, slot.lock()).await else {
            return Arc::new(unknown_funds(network, UnknownReason::TooSlow));
        };
        if let Some((at, funds)) = latest.as_ref()
            && self.clock.now().age_clock_ms().saturating_sub(*at) < FUNDS_FRESH_MS
        {
            return Arc::clone(funds);
        }
        let funds = Arc::new(self.query(owner, network, deadline).await);
        let now = self.clock.now();
        *latest = Some((now.age_clock_ms(), Arc::clone(&funds)));
        if funds.failure().is_none() {
            self.cache.store((owner, network.chain), &now, &funds);
        }
        funds
    }

    fn slot(&self, owner: Address, chain: ChainId) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (owner, chain);
        if slots.len() >= FUNDS_CACHE_ACCOUNTS_MAX && !slots.contains_key(&key) {
            // Slots in use stay: a second slot for the same address would query the address at the same time.
            slots.retain(|_key, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(key).or_default())
    }

    /// Queries the chain and the explorer at once.
    async fn query(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> NetworkFunds {
        let (known, found) = join(
            self.read_known_tokens(owner, network, deadline),
            self.list_explorer_tokens(owner, network, deadline),
        )
        .await;
        merge(network, known, found)
    }

    /// Reads the native coin and the tokens of our table from the chain.
    async fn read_known_tokens(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> Result<Holdings, UnknownReason> {
        let chain = self.chains.get(&network.chain).ok_or(UnknownReason::NoEndpoint)?;
        let tokens: Vec<Address> = known_tokens(network).map(|(_kind, t)| t.address).collect();
        match timeout_at(deadline, holdings(chain.as_ref(), owner, &tokens)).await {
            Ok(Ok(holdings)) => Ok(holdings),
            Ok(Err(failure)) => {
                tracing::warn!(network = %network.chain, %failure, "balances could not be read");
                Err(UnknownReason::from(&failure))
            }
            Err(_elapsed) => Err(UnknownReason::TooSlow),
        }
    }

    /// Reads all tokens from the explorer, if there is one.
    async fn list_explorer_tokens(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> Option<Result<Vec<TokenBalance>, DiscoveryFailure>> {
        let explorer = self.explorers.get(&network.chain)?;
        Some(match timeout_at(deadline, explorer.tokens(owner)).await {
            Ok(Ok(tokens)) => {
                self.icons.note(network, &tokens);
                Ok(tokens)
            }
            Ok(Err(failure)) => {
                tracing::warn!(network = %network.chain, %failure, "the tokens could not be read from the explorer");
                Err(match failure {
                    ExplorerFault::Status { status: 500, .. } => DiscoveryFailure::Status500,
                    ExplorerFault::Status { .. }
                    | ExplorerFault::Unreachable { .. }
                    | ExplorerFault::Malformed { .. } => DiscoveryFailure::Failed,
                })
            }
            Err(_elapsed) => Err(DiscoveryFailure::Failed),
        })
    }
}
