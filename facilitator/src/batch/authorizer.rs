//! The authorizer: our key that receivers name in their channels, so that it signs claims and refunds for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};

use crate::keys::SigningKey;
use crate::network::NetworkContext;
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;

/// Signs claims and refunds of payment channels for their receivers.
#[derive(Debug, Clone)]
pub struct Authorizer(Arc<SigningKey>);

impl Authorizer {
    /// An authorizer with this key.
    pub fn new(key: Arc<SigningKey>) -> Self {
        Self(key)
    }

    /// The address that channels name.
    pub fn address(&self) -> Address {
        self.0.address()
    }
}

/// Whose channels the authorizer may sign for, as one request asks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permission<'a> {
    authorizer: Option<&'a Authorizer>,
    /// The receivers of the caller's API key.
    receivers: &'a BTreeSet<Address>,
}

impl<'a> Permission<'a> {
    /// Permits no signature.
    pub(super) const NONE: Permission<'static> =
        Permission { authorizer: None, receivers: &BTreeSet::new() };

    /// What this requester may have signed.
    pub(super) fn of(network: &'a NetworkContext, requester: &'a Requester) -> Self {
        Self { authorizer: network.authorizer.as_ref(), receivers: &requester.receivers }
    }

    /// Signs a claim or refund of channels that name `named` as their authorizer and pay `receivers`. Signs only if all of
    /// them belong to the caller: a refund takes what a receiver has not claimed yet, and everyone can read the config
    /// of a channel on the chain.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn sign(
        &self,
        digest: B256,
        named: Address,
        receivers: impl IntoIterator<Item = Address>,
    ) -> Result<Bytes, Rejection> {
        let authorizer = self.authorizer.ok_or(Reason::AuthorizerMissing)?;
        if authorizer.address() != named {
            return Err(Reason::AuthorizerMismatch.into());
        }
        if !receivers.into_iter().all(|receiver| self.receivers.contains(&receiver)) {
            let why = "The API key of this request does not list the receiver, so this facilitator does not \
                       sign for it.";
            return Err(Rejection::with_message(Reason::AuthorizerMissing, why));
        }
        let signature = authorizer.0.sign(digest).map_err(|_none| Reason::AuthorizerMissing)?;
        Ok(signature.to_bytes().to_vec().into())
    }
}
