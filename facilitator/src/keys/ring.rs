//! The signing keys of a network by address. The ring signs for the outboxes of these addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256};
use bursar_chain::ports::BoxFuture;
use bursar_chain::tx_driver::SignOutcome;
use bursar_outbox::service::Signer;
use bursar_submit::OutboxKey;

use crate::keys::fault::KeyFault;
use crate::keys::signing_key::SigningKey;

/// Signing keys by address.
#[derive(Default)]
pub struct KeyRing(BTreeMap<Address, SigningKey>);

impl KeyRing {
    /// Reads every file. Blocks, as [`SigningKey::load`] does.
    ///
    /// # Errors
    /// The first file without a valid key, or with a key that is already loaded: two outboxes of one account would use
    /// each other's nonces.
    pub fn load(files: &[PathBuf], password_file: Option<&Path>) -> Result<Self, KeyFault> {
        let mut ring = Self::default();
        for file in files {
            let key = SigningKey::load(file, password_file)?;
            let address = key.address();
            if ring.0.insert(address, key).is_some() {
                return Err(KeyFault::Duplicate { file: file.clone(), address });
            }
        }
        Ok(ring)
    }

    /// The addresses of the keys, in order.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.0.keys().copied()
    }

    /// The key of an address.
    pub fn get(&self, address: Address) -> Option<&SigningKey> {
        self.0.get(&address)
    }
}

impl FromIterator<SigningKey> for KeyRing {
    fn from_iter<I: IntoIterator<Item = SigningKey>>(keys: I) -> Self {
        Self(keys.into_iter().map(|key| (key.address(), key)).collect())
    }
}

/// Shows only addresses.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Signer for KeyRing {
    fn sign(&self, key: OutboxKey, digest: B256) -> BoxFuture<'_, SignOutcome> {
        // Takes about fifty microseconds, so a separate thread is not worth it.
        let signed = self.get(key.signer).map(|key| key.sign(digest));
        let end = match signed {
            Some(Ok(signature)) => SignOutcome::Signed(signature),
            Some(Err(_)) | None => SignOutcome::Declined,
        };
        Box::pin(std::future::ready(end))
    }
}
