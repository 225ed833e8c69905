//! The signing keys of a network by address. The ring signs for the outboxes of these addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use bursar_chain::ports::BoxFuture;
use bursar_chain::tx_driver::SignOutcome;
use bursar_outbox::service::Signer;
use bursar_submit::OutboxKey;

use crate::keys::fault::KeyFault;
use crate::keys::signing_key::SigningKey;

/// Signing keys by address.
#[derive(Default)]
pub struct KeyRing {
    keys: BTreeMap<Address, SigningKey>,
    /// The addresses of the active keys, in the order of the settings.
    active: Vec<Address>,
    retired: Vec<Address>,
    /// The key that signs for receivers of payment channels. It signs no transactions.
    authorizer: Option<Arc<SigningKey>>,
}

impl KeyRing {
    /// Reads every file of active and of retired keys.
    ///
    /// It blocks, as [`SigningKey::load`] does.
    ///
    /// # Errors
    /// The first file that has no valid key, or a key that is already loaded. Two outboxes of one account would use
    /// each other's nonces.
    pub fn load(
        active: &[PathBuf],
        retired: &[PathBuf],
        password_file: Option<&Path>,
    ) -> Result<Self, KeyFault> {
        let mut ring = Self::default();
        ring.active = ring.read(active, password_file)?;
        ring.retired = ring.read(retired, password_file)?;
        Ok(ring)
    }

    /// Adds the authorizer, whose key signs for receivers of payment channels.
    ///
    /// It blocks, as [`SigningKey::load`] does.
    ///
    /// # Errors
    /// The file has no valid key, or the key of an account that sends transactions.
    pub fn with_authorizer(
        mut self,
        file: &Path,
        password_file: Option<&Path>,
    ) -> Result<Self, KeyFault> {
        let key = SigningKey::load(file, password_file)?;
        let address = key.address();
        if self.keys.contains_key(&address) {
            return Err(KeyFault::AuthorizerSends { file: file.to_owned(), address });
        }
        self.authorizer = Some(Arc::new(key));
        Ok(self)
    }

    /// The key of the authorizer, which no outbox uses.
    pub fn authorizer(&self) -> Option<Arc<SigningKey>> {
        self.authorizer.clone()
    }

    fn read(
        &mut self,
        files: &[PathBuf],
        password_file: Option<&Path>,
    ) -> Result<Vec<Address>, KeyFault> {
        let mut addresses = Vec::with_capacity(files.len());
        for file in files {
            let key = SigningKey::load(file, password_file)?;
            let address = key.address();
            if self.keys.insert(address, key).is_some() {
                return Err(KeyFault::Duplicate { file: file.clone(), address });
            }
            addresses.push(address);
        }
        Ok(addresses)
    }

    /// The addresses of the active keys, in the order of the settings.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.active.iter().copied()
    }

    /// The addresses of the retired keys, in the order of the settings.
    pub fn retired(&self) -> impl Iterator<Item = Address> + '_ {
        self.retired.iter().copied()
    }

    /// The key of an address, active or retired.
    pub fn get(&self, address: Address) -> Option<&SigningKey> {
        self.keys.get(&address)
    }
}

impl FromIterator<SigningKey> for KeyRing {
    fn from_iter<I: IntoIterator<Item = SigningKey>>(keys: I) -> Self {
        let mut ring = Self::default();
        for key in keys {
            ring.active.push(key.address());
            ring.keys.insert(key.address(), key);
        }
        ring
    }
}

/// Shows the addresses only.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
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
