//! The small doors through which the outside reaches the engine. The chain and the clock have theirs in
//! `bursar-chain`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bursar_chain::ports::{BoxFuture, Chain, Clock, Explorer};
use bursar_core::networks::ChainId;
use bursar_x402::signature::Signature65;

pub use crate::faults::{Faults, NoFaults};
use crate::journal::Slip;

/// Why a slip was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignFault {
    /// The wallet was locked or the agents were frozen since the slip was issued.
    #[error("the wallet was locked or the agents were frozen meanwhile")]
    Stale,
    #[error("the wallet has no key for this address")]
    NoKey,
    /// A person refused on the device, or the device did.
    #[error("the signer refused: {0}")]
    Refused(String),
}

/// Whoever holds keys. A signer may be slow, may ask a human and may refuse; it signs the slip's digest
/// and nothing else.
pub trait Signer: Send + Sync + fmt::Debug {
    /// Whether signing this waits for a person: then nobody waits for the signature, a poll finds it.
    fn asks_a_person(&self, slip: &Slip) -> bool;

    fn sign(&self, slip: Slip) -> BoxFuture<'_, Result<Signature65, SignFault>>;
}

/// Entropy for ids, nonces and secrets.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills the buffer, or says that the platform has none to give.
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// The platform's generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        getrandom::fill(bytes).map_err(io::Error::other)
    }
}

/// How much room the data folder has.
pub trait Disk: Send + Sync + fmt::Debug {
    fn free_bytes(&self, folder: &Path) -> io::Result<u64>;
}

/// The file system's own answer.
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

/// One explorer for each network that has one set.
pub type Explorers = PerNetwork<dyn Explorer>;

/// A counterparty for each network that has one. Cheap to clone; a change is seen by every copy.
#[derive(Debug)]
pub struct PerNetwork<T: ?Sized> {
    // A lock, not a message: every question to a chain looks in, and it is never held across a wait.
    each: Arc<RwLock<BTreeMap<ChainId, Arc<T>>>>,
}

impl<T: ?Sized> Clone for PerNetwork<T> {
    fn clone(&self) -> Self {
        Self { each: Arc::clone(&self.each) }
    }
}

impl<T: ?Sized> Default for PerNetwork<T> {
    fn default() -> Self {
        Self { each: Arc::default() }
    }
}

impl<T: ?Sized> PerNetwork<T> {
    pub fn get(&self, chain: &ChainId) -> Option<Arc<T>> {
        self.each.read().unwrap_or_else(PoisonError::into_inner).get(chain).cloned()
    }

    /// Takes other endpoints into use, or none. Questions in progress end where they began.
    pub fn set(&self, chain: ChainId, to: Option<Arc<T>>) {
        let mut each = self.each.write().unwrap_or_else(PoisonError::into_inner);
        match to {
            Some(to) => drop(each.insert(chain, to)),
            None => drop(each.remove(&chain)),
        }
    }
}

impl<T: ?Sized> FromIterator<(ChainId, Arc<T>)> for PerNetwork<T> {
    fn from_iter<I: IntoIterator<Item = (ChainId, Arc<T>)>>(chains: I) -> Self {
        Self { each: Arc::new(RwLock::new(chains.into_iter().collect())) }
    }
}

/// Everything that the engine reaches outside, in one place: the list of its counterparties.
#[derive(Debug, Clone)]
pub struct Ports {
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    pub disk: Arc<dyn Disk>,
    pub faults: Arc<dyn Faults>,
    pub chains: Chains,
    pub explorers: Explorers,
    /// Signs instead of the vault; tests only.
    pub signer: Option<Arc<dyn Signer>>,
}
