//! The ports through which the engine reaches the outside. The ports of chain, explorer, clock and failpoints are in
//! `bursar-chain`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bursar_chain::ports::{BoxFuture, Chain, Clock, Explorer, Icons, Prices, Registry};
use bursar_core::networks::ChainId;
use bursar_x402::signature::Signature65;

use crate::journal::{Slip, Terms};
use crate::rules::Rules;
pub use bursar_chain::failpoints::{Failpoints, NoFailpoints};
pub use bursar_ledger::port::Devices;

/// Why a slip was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignFault {
    /// The epoch has changed since the slip was issued: the wallet was locked or opened, an agent was stopped, or the
    /// journal failed.
    #[error("the wallet was locked or an agent was stopped after this signature was permitted")]
    Stale,
    #[error("the wallet has no key for this address")]
    NoKey,
    /// A person refused on the device, or the signer refused or failed.
    #[error("the signer refused: {0}")]
    Refused(String),
}

/// A holder of keys, which signs only the slip's digest.
///
/// It may be slow, ask a person and refuse.
pub trait Signer: Send + Sync + fmt::Debug {
    /// Whether signing this slip waits for a person. If so, no caller waits for the signature; a poll returns
    /// it.
    fn asks_a_person(&self, slip: &Slip) -> bool;

    /// Signs the slip's digest, which is the hash of `terms`.
    ///
    /// A signer that shows the terms to a person checks that hash.
    ///
    /// # Errors
    /// The slip is stale, there is no key for its signer, or the signer refuses.
    fn sign(&self, slip: Slip, terms: Terms) -> BoxFuture<'_, Result<Signature65, SignFault>>;
}

/// Entropy for ids, nonces and secrets.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills the buffer.
    ///
    /// # Errors
    /// The platform provides no entropy.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// The platform's random generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::other)
    }
}

/// The free space of the data folder.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Returns the bytes that this account can still write to the folder's file system.
    ///
    /// # Errors
    /// The folder cannot be queried.
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// The free space that the file system reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn free_bytes(&self, folder: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// One chain for each network that has an endpoint.
pub type Chains = PerNetwork<dyn Chain>;

/// One explorer for each network that has one configured.
pub type Explorers = PerNetwork<dyn Explorer>;

/// One port per network.
///
/// Clones are cheap and share changes.
#[derive(Debug)]
pub struct PerNetwork<T: ?Sized> {
    // A lock instead of an owning task: every call to a chain takes it, and it is never held across an await.
    by_chain: Arc<RwLock<BTreeMap<ChainId, Arc<T>>>>,
}

impl<T: ?Sized> Clone for PerNetwork<T> {
    fn clone(&self) -> Self {
        Self { by_chain: Arc::clone(&self.by_chain) }
    }
}

impl<T: ?Sized> Default for PerNetwork<T> {
    fn default() -> Self {
        Self { by_chain: Arc::default() }
    }
}

impl<T: ?Sized> PerNetwork<T> {
    /// Returns the port of a network.
    pub fn get(&self, chain: &ChainId) -> Option<Arc<T>> {
        self.by_chain.read().unwrap_or_else(PoisonError::into_inner).get(chain).cloned()
    }

    /// Replaces or removes the port of a network.
    ///
    /// Calls in flight finish on the old port.
    pub fn set(&self, chain: ChainId, to: Option<Arc<T>>) {
        let mut each = self.by_chain.write().unwrap_or_else(PoisonError::into_inner);
        match to {
            Some(to) => drop(each.insert(chain, to)),
            None => drop(each.remove(&chain)),
        }
    }
}

impl<T: ?Sized> FromIterator<(ChainId, Arc<T>)> for PerNetwork<T> {
    fn from_iter<I: IntoIterator<Item = (ChainId, Arc<T>)>>(chains: I) -> Self {
        Self { by_chain: Arc::new(RwLock::new(chains.into_iter().collect())) }
    }
}

/// The price API, which a setting can replace.
///
/// Clones are cheap and share changes.
#[derive(Debug, Clone, Default)]
pub struct PriceSource(Arc<RwLock<Option<Arc<dyn Prices>>>>);

impl PriceSource {
    /// Returns the price API, if there is one.
    pub fn get(&self) -> Option<Arc<dyn Prices>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces or removes the price API.
    ///
    /// Calls in flight finish on the old API.
    pub fn set(&self, to: Option<Arc<dyn Prices>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = to;
    }
}

impl From<Option<Arc<dyn Prices>>> for PriceSource {
    fn from(prices: Option<Arc<dyn Prices>>) -> Self {
        Self(Arc::new(RwLock::new(prices)))
    }
}

/// All ports of one engine.
#[derive(Debug, Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub disk: Arc<dyn Disk>,
    pub failpoints: Arc<dyn Failpoints>,
    pub chains: Chains,
    pub explorers: Explorers,
    /// Without it the value of ETH is unknown.
    pub prices: PriceSource,
    /// Asked only with the setting `icons`.
    pub icons: Arc<dyn Icons>,
    /// Called only by `mandate upload` and `mandate retire`.
    pub registry: Arc<dyn Registry>,
    /// The hardware devices; `None` in a build without support for them.
    pub devices: Option<Arc<dyn Devices>>,
    /// Signs in place of the vault; only in tests.
    pub signer: Option<Arc<dyn Signer>>,
    /// The rules that the core runs; mutated only in simulations.
    pub rules: Rules,
}
