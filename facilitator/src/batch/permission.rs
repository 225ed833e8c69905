//! Decides for which receivers the authorizer may sign.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, Bytes};

use crate::batch::authorizer::Authorizer;
use crate::network::NetworkContext;
use crate::reason::{Reason, Rejection};
use crate::requester::Requester;

/// The authorizer's permission to sign for the receivers of one requester.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permission<'a> {
    authorizer: Option<&'a Authorizer>,
    /// The receivers of the caller's API key.
    receivers: &'a BTreeSet<Address>,
}

/// A signature of the authorizer for a batch of claims.
pub(super) struct ClaimSignature {
    pub(super) signature: Bytes,
    /// Whether each row must raise the claimed amount, because the caller's API key does not list every receiver. A
    /// claim pays only its receiver, but costs a signer gas.
    pub(super) must_raise_claimed: bool,
}

impl<'a> Permission<'a> {
    /// Permits no signature.
    pub(super) const NONE: Permission<'static> =
        Permission { authorizer: None, receivers: &BTreeSet::new() };

    /// Creates the permission of a requester.
    pub(super) fn of(network: &'a NetworkContext, requester: &'a Requester) -> Self {
        Self { authorizer: network.authorizer.as_ref(), receivers: &requester.receivers }
    }

    /// Signs a claim or refund of channels that name `named` as their authorizer and pay `receivers`. Signs only if the
    /// caller's API key lists all of them: a refund takes money that a receiver has not claimed yet, and anyone can
    /// read the config of a channel on the chain.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn sign(
        &self,
        digest: B256,
        named: Address,
        receivers: impl IntoIterator<Item = Address>,
    ) -> Result<Bytes, Rejection> {
        let authorizer = self.authorizer_named(named)?;
        if !self.lists_receivers(receivers) {
            let why = "The API key of this request does not list the receiver, so this facilitator does not \
                       sign for it.";
            return Err(Rejection::with_message(Reason::AuthorizerMissing, why));
        }
        Ok(authorizer.sign(digest).ok_or(Reason::AuthorizerMissing)?)
    }

    /// Signs claims that are made without a refund, for any caller: a claim pays only the receiver of its channel.
    ///
    /// # Errors
    /// [`Rejection`].
    pub(super) fn sign_claims(
        &self,
        digest: B256,
        named: Address,
        receivers: impl IntoIterator<Item = Address>,
    ) -> Result<ClaimSignature, Rejection> {
        let authorizer = self.authorizer_named(named)?;
        let signature = authorizer.sign(digest).ok_or(Reason::AuthorizerMissing)?;
        Ok(ClaimSignature { signature, must_raise_claimed: !self.lists_receivers(receivers) })
    }

    /// Returns the authorizer if its address is `named`.
    fn authorizer_named(&self, named: Address) -> Result<&'a Authorizer, Rejection> {
        let authorizer = self.authorizer.ok_or(Reason::AuthorizerMissing)?;
        if authorizer.address() != named {
            return Err(Reason::AuthorizerMismatch.into());
        }
        Ok(authorizer)
    }

    /// Whether the caller's API key lists all these receivers.
    fn lists_receivers(&self, receivers: impl IntoIterator<Item = Address>) -> bool {
        receivers.into_iter().all(|receiver| self.receivers.contains(&receiver))
    }
}
