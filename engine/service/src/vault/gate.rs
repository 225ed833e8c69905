//! The gate between the keys and their users: which keys are in memory, and the epoch in which they may be
//! used. A slip contains the epoch of its issue. A lock, a freeze, and the suspension or deletion of an agent raise
//! the epoch. Signing compares the two epochs while it holds the gate's lock. So once a freeze is answered, no slip
//! from before it is signed.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use alloy_primitives::Address;
use bursar_core::ids::AgentId;
use bursar_x402::signature::Signature65;
use secrecy::ExposeSecret;

use super::derive::PrivateKey;
use super::file::AgentSecret;
use crate::journal::Slip;
use crate::ports::SignFault;

/// The keys and secrets of an open wallet, wiped on drop.
#[derive(Default)]
pub struct Keyring {
    keys: BTreeMap<Address, PrivateKey>,
    // Boxed: a move must not leave a copy behind.
    agents: BTreeMap<AgentId, AgentSecret>,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Keyring {
    pub(super) fn add_key(&mut self, key: PrivateKey) {
        self.keys.insert(key.address(), key);
    }

    pub(super) fn add_agent(&mut self, id: AgentId, secret: AgentSecret) {
        self.agents.insert(id, secret);
    }
}

/// Holds the keyring and the epoch.
///
/// The vault opens and closes the gate; the core voids slips. Each of these raises the epoch.
#[derive(Default)]
pub struct Gate {
    // A lock instead of an owning task: the epoch must be compared at the moment of signing, and many callers
    // sign at once. It is never held across an await.
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    epoch: u64,
    keyring: Option<Keyring>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("unlocked", &self.is_unlocked()).finish()
    }
}

impl Gate {
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the keys are in memory.
    pub fn is_unlocked(&self) -> bool {
        self.read().keyring.is_some()
    }

    /// Returns the current epoch, which a new slip must contain.
    pub fn epoch(&self) -> u64 {
        self.read().epoch
    }

    /// Voids every slip issued so far.
    pub fn raise(&self) {
        let mut inner = self.write();
        inner.epoch = inner.epoch.saturating_add(1);
    }

    pub(super) fn open(&self, keyring: Keyring) {
        let mut inner = self.write();
        inner.epoch = inner.epoch.saturating_add(1);
        inner.keyring = Some(keyring);
    }

    pub(super) fn close(&self) {
        let mut inner = self.write();
        inner.epoch = inner.epoch.saturating_add(1);
        inner.keyring = None;
    }

    pub(super) fn add_key(&self, key: PrivateKey) {
        if let Some(keyring) = &mut self.write().keyring {
            keyring.add_key(key);
        }
    }

    pub(super) fn add_agent(&self, id: AgentId, secret: AgentSecret) {
        if let Some(keyring) = &mut self.write().keyring {
            keyring.add_agent(id, secret);
        }
    }

    pub(super) fn forget_agent(&self, id: &AgentId) {
        if let Some(keyring) = &mut self.write().keyring {
            keyring.agents.remove(id);
        }
    }

    /// Calls `use_it` with the agent's secret, or `None` if it is not in memory.
    pub fn with_agent_secret<T>(
        &self,
        id: &AgentId,
        use_it: impl FnOnce(Option<&[u8; 32]>) -> T,
    ) -> T {
        let inner = self.read();
        let secret = inner.keyring.as_ref().and_then(|keyring| keyring.agents.get(id));
        use_it(secret.map(|secret| secret.expose_secret()))
    }

    pub(super) fn sign(&self, slip: &Slip) -> Result<Signature65, SignFault> {
        let inner = self.read();
        if inner.epoch != slip.epoch() {
            return Err(SignFault::Stale);
        }
        let keyring = inner.keyring.as_ref().ok_or(SignFault::Stale)?;
        let key = keyring.keys.get(&slip.signer()).ok_or(SignFault::NoKey)?;
        let bytes = key
            .sign_digest(&slip.digest())
            .map_err(|error| SignFault::Refused(error.to_string()))?;
        Signature65::from_bytes(&bytes).map_err(|error| SignFault::Refused(error.to_string()))
    }
}
