//! The caller of a request, and the rights of its API key.

use std::collections::BTreeSet;
use std::sync::Arc;

use alloy_primitives::Address;

use crate::book::record::RequestOrigin;

/// The caller that makes a request.
#[derive(Debug, Clone, Default)]
pub struct Requester {
    /// The part of the request that the book stores.
    pub origin: RequestOrigin,
    /// The receivers of the requester's API key.
    ///
    /// The authorizer signs a refund, and the claims before it, only for these receivers. It signs other claims for any
    /// receiver, if they raise the claimed amount.
    pub receivers: Arc<BTreeSet<Address>>,
}

/// A requester whose API key lists no receivers.
impl From<RequestOrigin> for Requester {
    fn from(origin: RequestOrigin) -> Self {
        Self { origin, receivers: Arc::default() }
    }
}
