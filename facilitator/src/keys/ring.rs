//! The keys of a network, each by its address. Signs for a desk whose signer it holds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256};
use bursar_chain::courier::SignEnd;
use bursar_chain::ports::BoxFuture;
use bursar_desks::service::Signer;
use bursar_submit::DeskKey;

use super::{KeyFault, SigningKey};

/// Signing keys by their address.
#[derive(Default)]
pub struct KeyRing(BTreeMap<Address, SigningKey>);

impl KeyRing {
    /// Reads every file. Blocks, as [`SigningKey::load`] does.
    ///
    /// # Errors
    /// The first file that gives no key, or a key that is there already: two desks of one account would
    /// take each other's nonces.
    pub fn load(files: &[PathBuf], password_file: Option<&Path>) -> Result<Self, KeyFault> {
        let mut ring = Self::default();
        for file in files {
            let key = SigningKey::load(file, password_file)?;
            let address = key.address();
            if ring.0.insert(address, key).is_some() {
                return Err(KeyFault::Twice { file: file.clone(), address });
            }
        }
        Ok(ring)
    }

    /// Whose keys it holds, in order.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.0.keys().copied()
    }

    pub fn get(&self, address: Address) -> Option<&SigningKey> {
        self.0.get(&address)
    }
}

impl FromIterator<SigningKey> for KeyRing {
    fn from_iter<I: IntoIterator<Item = SigningKey>>(keys: I) -> Self {
        Self(keys.into_iter().map(|key| (key.address(), key)).collect())
    }
}

/// Shows addresses alone.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Signer for KeyRing {
    fn sign(&self, key: DeskKey, digest: B256) -> BoxFuture<'_, SignEnd> {
        // Some fifty microseconds: not worth a thread of its own.
        let signed = self.get(key.signer).map(|key| key.sign(digest));
        let end = match signed {
            Some(Ok(signature)) => SignEnd::Signed(signature),
            Some(Err(_)) | None => SignEnd::Declined,
        };
        Box::pin(std::future::ready(end))
    }
}
