//! The identity of a request. A repeat has the same identity.

use serde::{Deserialize, Serialize};

/// Identifies a request.
///
/// A later request with the same identity may be its repeat: [`repeat`](crate::idempotency::repeat) decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Identity {
    /// A hash of agent, endpoint and signature: repeating the signed body repeats the request. `day` is the UTC day
    /// of the signed timestamp (days since 1970); it keeps the index in time order.
    Hmac { day: u32, digest: [u8; 32] },
    /// A hash of agent, endpoint and content, and of the idempotency key if one was given.
    Bearer { digest: [u8; 32], key: Option<KeyClaim> },
}

/// A bearer agent's idempotency key, bound to the content of its request while the request is remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyClaim {
    /// Hash of agent, endpoint and key.
    pub name: [u8; 32],
    /// Hash of the content.
    pub content: [u8; 32],
}

impl Identity {
    /// Returns the index key of this identity.
    ///
    /// Signed requests sort by day: the cost of adding one does not grow with their number, and a whole day can be
    /// dropped at once.
    pub fn index_key(&self) -> Vec<u8> {
        let mut key = Vec::with_capacity(37);
        match self {
            Identity::Hmac { day, digest } => {
                key.push(b'h');
                key.extend_from_slice(&day.to_be_bytes());
                key.extend_from_slice(digest);
            }
            Identity::Bearer { digest, .. } => {
                key.push(b'b');
                key.extend_from_slice(digest);
            }
        }
        key
    }

    /// Returns the index key of the idempotency key, if one was given.
    pub fn claim_key(&self) -> Option<Vec<u8>> {
        let claim = self.claim()?;
        let mut key = Vec::with_capacity(33);
        key.push(b'k');
        key.extend_from_slice(&claim.name);
        Some(key)
    }

    /// Returns whether the request has only its content as identity: neither a signature nor an idempotency key.
    pub fn is_by_content(&self) -> bool {
        matches!(self, Identity::Bearer { key: None, .. })
    }

    /// Names the identity for the agent: the kind of identity, and the first digits of its hash.
    pub fn name(&self) -> String {
        let (kind, digest) = match self {
            Identity::Hmac { digest, .. } => ("signature", digest),
            Identity::Bearer { digest, key: Some(_) } => ("idempotency_key", digest),
            Identity::Bearer { digest, key: None } => ("content", digest),
        };
        let short: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{kind}:{short}")
    }

    /// Returns the hashes of the idempotency key and of the request's content.
    ///
    /// `None` for a signed request or a request without a key.
    pub fn claim(&self) -> Option<&KeyClaim> {
        match self {
            Identity::Hmac { .. } => None,
            Identity::Bearer { key, .. } => key.as_ref(),
        }
    }
}
