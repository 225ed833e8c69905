//! What makes two asks one. Kept in the journal, so that an ask is recognised for as long as it is remembered.

use serde::{Deserialize, Serialize};

/// What makes two asks one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Identity {
    /// The signature itself: whoever repeats the signed body repeats the ask. `day` is that of the signed
    /// timestamp, which keeps the index in order of time.
    Hmac { day: u32, digest: [u8; 32] },
    /// The content, and the idempotency key if one was given.
    Bearer { digest: [u8; 32], key: Option<KeyClaim> },
}

/// A bearer agent's idempotency key, bound to the content it came with while that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyClaim {
    /// Hash of agent, endpoint and key.
    pub name: [u8; 32],
    /// Hash of the content.
    pub content: [u8; 32],
}

impl Identity {
    /// The form in which the index keeps it: signed asks under their day, which is flat in cost however
    /// many there are, and lets a day be forgotten as a whole.
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

    /// The index key of the idempotency key, if there is one.
    pub fn claim_key(&self) -> Option<Vec<u8>> {
        let claim = self.claim()?;
        let mut key = Vec::with_capacity(33);
        key.push(b'k');
        key.extend_from_slice(&claim.name);
        Some(key)
    }

    pub fn claim(&self) -> Option<&KeyClaim> {
        match self {
            Identity::Hmac { .. } => None,
            Identity::Bearer { key, .. } => key.as_ref(),
        }
    }
}
