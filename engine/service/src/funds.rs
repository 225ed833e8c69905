//! What an address holds, network by network: for showing, never for deciding. What cannot be read is told
//! as unknown, with a reason in our own words; never as zero, never as an empty list.

mod glance;
mod merge;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use bursar_chain::multicall::{Holdings, ReadFault, holdings};
use bursar_chain::ports::{Clock, ExplorerFault, TokenHeld};
use bursar_core::limits::{FUNDS_FRESH_MS, FUNDS_KEPT, FUNDS_WAIT_MS};
use bursar_core::money::{Atoms, Round, TokenAmount, Usd};
use bursar_core::networks::{ChainId, Network};
use futures::future::{join, join_all};
use tokio::time::{Instant, timeout_at};

use crate::ports::{Chains, Explorers, Ports};
use glance::Glances;
pub use glance::{Glance, Whose};
use merge::{known_tokens, merge, unknown};

/// What an address holds on one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFunds {
    pub network: &'static Network,
    /// The native coin, the dollar token, the other tokens of our table, then what the explorer knows of.
    pub held: Vec<Held>,
    /// Why tokens may be missing from the list, if so.
    pub incomplete: Option<&'static str>,
}

/// What an address holds of one coin or token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub kind: Kind,
    /// Safe to show: in what a token says of itself, hidden characters are written out.
    pub symbol: String,
    /// `None` for the native coin.
    pub token: Option<Address>,
    pub decimals: Option<u8>,
    pub amount: Result<Atoms, Unknown>,
}

/// How far the symbol is to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Native,
    /// The network's dollar token, one to one.
    Dollar,
    /// In our table.
    Known,
    /// An explorer knows of it. It may call itself whatever it likes.
    Foreign,
}

/// Why an amount is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    NoEndpoint,
    NoAnswer,
    TooSlow,
    NotAToken,
}

impl Unknown {
    /// The same words whatever a node said.
    pub fn text(self) -> &'static str {
        match self {
            Unknown::NoEndpoint => "No endpoint is set for this network.",
            Unknown::NoAnswer => "No endpoint of the network gave a valid answer.",
            Unknown::TooSlow => "The network did not answer in time.",
            Unknown::NotAToken => "The token's contract gave no valid balance.",
        }
    }
}

impl NetworkFunds {
    /// Why nothing of our table could be read, if so.
    pub fn failure(&self) -> Option<Unknown> {
        let known = || self.held.iter().filter(|held| held.kind != Kind::Foreign);
        if known().any(|held| held.amount.is_ok()) {
            return None;
        }
        known().find_map(|held| held.amount.err())
    }

    /// Whether anything at all is known.
    pub fn tells_anything(&self) -> bool {
        self.held.iter().any(|held| held.amount.is_ok())
    }
}

impl Held {
    /// Whether the symbol is that of our table.
    pub fn is_verified(&self) -> bool {
        self.kind != Kind::Foreign
    }

    /// The amount in whole coins, without trailing zeros.
    pub fn formatted(&self) -> Option<String> {
        let amount = TokenAmount { atoms: self.amount.ok()?, decimals: self.decimals? };
        let digits = amount.to_string();
        let whole = !digits.contains('.');
        let short = digits.trim_end_matches('0').trim_end_matches('.');
        Some(if whole { digits } else { short.to_owned() })
    }

    /// Why there is no amount in whole coins, if so.
    pub fn unknown_reason(&self) -> Option<&'static str> {
        match (self.amount, self.decimals) {
            (Err(why), _) => Some(why.text()),
            (Ok(_units), None) => Some("The token does not report its decimals."),
            (Ok(_units), Some(_decimals)) => None,
        }
    }

    /// What it is worth, where that needs no price; never more than it is.
    pub fn usd(&self) -> Option<Usd> {
        match self.kind {
            Kind::Dollar => self.amount.ok()?.to_usd(self.decimals?, Round::Down).ok(),
            Kind::Native | Kind::Known | Kind::Foreign => None,
        }
    }
}

/// The latest look-up of one address on one network. A queue of one, held over the look-up so that whoever
/// asks meanwhile waits for the same answer, and so tokio's.
type Slot = tokio::sync::Mutex<Option<(u64, Arc<NetworkFunds>)>>;

/// Looks up what addresses hold. Asks about one address once at a time and not again within two seconds, so
/// that no agent can use it to drive nodes.
#[derive(Debug)]
pub struct Funds {
    chains: Chains,
    explorers: Explorers,
    clock: Arc<dyn Clock>,
    /// A mutex and not an owner behind a channel: it is held for a look into the map.
    slots: Mutex<BTreeMap<(Address, ChainId), Arc<Slot>>>,
    glances: Glances,
}

impl Funds {
    pub fn new(ports: &Ports) -> Self {
        Self {
            chains: ports.chains.clone(),
            explorers: ports.explorers.clone(),
            clock: Arc::clone(&ports.clock),
            slots: Mutex::default(),
            glances: Glances::default(),
        }
    }

    /// What `owner` holds on each of these networks, in their order. All are asked at once; whoever has not
    /// answered in [`FUNDS_WAIT_MS`] is unknown.
    pub async fn of(&self, owner: Address, on: &[&'static Network]) -> Vec<Arc<NetworkFunds>> {
        let deadline = Instant::now() + Duration::from_millis(FUNDS_WAIT_MS);
        join_all(on.iter().map(|network| self.one(owner, network, deadline))).await
    }

    async fn one(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> Arc<NetworkFunds> {
        let slot = self.slot(owner, network.chain);
        let Ok(mut latest) = timeout_at(deadline, slot.lock()).await else {
            return Arc::new(unknown(network, Unknown::TooSlow));
        };
        if let Some((at, funds)) = latest.as_ref()
            && self.clock.mono_ms().saturating_sub(*at) < FUNDS_FRESH_MS
        {
            return Arc::clone(funds);
        }
        let funds = Arc::new(self.look(owner, network, deadline).await);
        let now = self.clock.now();
        *latest = Some((now.mono_ms, Arc::clone(&funds)));
        if funds.failure().is_none() {
            self.glances.note((owner, network.chain), &now, &funds);
        }
        funds
    }

    fn slot(&self, owner: Address, chain: ChainId) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (owner, chain);
        if slots.len() >= FUNDS_KEPT && !slots.contains_key(&key) {
            // Those in use stay: another one would ask beside them.
            slots.retain(|_key, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(key).or_default())
    }

    async fn look(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> NetworkFunds {
        let (known, found) =
            join(self.known(owner, network, deadline), self.found(owner, network, deadline)).await;
        merge(network, known, found)
    }

    /// Of the chain itself.
    async fn known(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> Result<Holdings, Unknown> {
        let chain = self.chains.get(&network.chain).ok_or(Unknown::NoEndpoint)?;
        let tokens: Vec<Address> = known_tokens(network).map(|(_kind, t)| t.address).collect();
        match timeout_at(deadline, holdings(chain.as_ref(), owner, &tokens)).await {
            Ok(Ok(holdings)) => Ok(holdings),
            Ok(Err(failure)) => {
                tracing::warn!(network = %network.chain, %failure, "balances could not be read");
                Err(Unknown::from(&failure))
            }
            Err(_elapsed) => Err(Unknown::TooSlow),
        }
    }

    /// Of the explorer, if there is one.
    async fn found(
        &self,
        owner: Address,
        network: &'static Network,
        deadline: Instant,
    ) -> Option<Result<Vec<TokenHeld>, Discovery>> {
        let explorer = self.explorers.get(&network.chain)?;
        Some(match timeout_at(deadline, explorer.tokens(owner)).await {
            Ok(Ok(tokens)) => Ok(tokens),
            Ok(Err(failure)) => {
                tracing::warn!(network = %network.chain, %failure, "no tokens from the explorer");
                Err(match failure {
                    ExplorerFault::Status { status: 500, .. } => Discovery::Status500,
                    ExplorerFault::Status { .. }
                    | ExplorerFault::Unreachable { .. }
                    | ExplorerFault::Malformed { .. } => Discovery::Failed,
                })
            }
            Err(_elapsed) => Err(Discovery::Failed),
        })
    }
}

/// How an explorer failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discovery {
    Failed,
    /// Which may mean that it has never seen the address.
    Status500,
}

impl From<&ReadFault> for Unknown {
    fn from(failure: &ReadFault) -> Self {
        match failure {
            ReadFault::Chain(_) | ReadFault::Malformed(_) => Unknown::NoAnswer,
            ReadFault::Refused => Unknown::NotAToken,
        }
    }
}
