//! The authorizer: a key of ours. Receivers name its address in their channels, and it signs claims and refunds for
//! them.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};

use crate::keys::SigningKey;

/// Signs claims and refunds of payment channels for their receivers.
#[derive(Debug, Clone)]
pub struct Authorizer(Arc<SigningKey>);

impl Authorizer {
    /// Creates an authorizer with this key.
    pub fn new(key: Arc<SigningKey>) -> Self {
        Self(key)
    }

    /// The address that channels name.
    pub fn address(&self) -> Address {
        self.0.address()
    }

    /// Signs a digest. Returns `None` only with a negligible probability.
    pub(super) fn sign(&self, digest: B256) -> Option<Bytes> {
        Some(self.0.sign(digest).ok()?.to_bytes().to_vec().into())
    }
}
