//! Same ask, same answer. An ask is recognised by its identity, kept in the journal: the answer to a
//! repeat does not depend on memory, and hardly on the clock.

use bursar_core::codes::Code;
use bursar_core::time::{Moment, Utc};
use serde::{Deserialize, Serialize};

use crate::requests::{Request, Status};

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

/// What the indexes know of an ask; looked up by the core before it decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prior {
    /// The newest request of the same identity.
    pub same: Option<Request>,
    /// A request of the same identity that is a payment and was settled, be it that one or an earlier one.
    pub paid: Option<Request>,
    /// The request that last used the same idempotency key.
    pub claimed: Option<Request>,
}

/// What a repeated ask gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// It is no repeat.
    New,
    /// The answer of the first.
    Same(Box<Request>),
    /// The first was a payment, and it was made.
    Settled(Box<Request>),
    Refuse(Code),
}

/// The table of decisions.md, "Same ask, same answer".
pub fn repeat(prior: &Prior, identity: &Identity, moment: &Moment) -> Repeat {
    if let (Some(claim), Some(first)) = (identity.claim(), &prior.claimed) {
        let other = first.identity.claim().is_some_and(|first| first.content != claim.content);
        if other && is_remembered(first, moment) {
            return Repeat::Refuse(Code::IdempotencyConflict);
        }
    }
    let Some(first) = &prior.same else { return Repeat::New };
    let signed = matches!(identity, Identity::Hmac { .. });
    let spent = matches!(first.status, Status::Authorized { .. });
    if let Some(paid) = prior.paid.as_ref().filter(|paid| paid.id == first.id) {
        return Repeat::Settled(Box::new(paid.clone()));
    }
    if is_remembered(first, moment) || (signed && !spent) {
        Repeat::Same(Box::new(first.clone()))
    } else if signed {
        Repeat::Refuse(Code::PaymentExpired)
    } else if let Some(paid) = &prior.paid {
        // It was over when it was asked again, and its report came after that.
        Repeat::Settled(Box::new(paid.clone()))
    } else {
        Repeat::New
    }
}

/// Whether a bearer agent's repeat of `first` gets its answer. A signed ask is remembered for good.
fn is_remembered(first: &Request, moment: &Moment) -> bool {
    match &first.status {
        Status::Held { .. } => true,
        Status::Authorized { .. } => first.is_redeemable(moment.utc),
        Status::Denied { told_until, .. } | Status::Expired { told_until, .. } => {
            !told_until.has_passed(moment)
        }
        Status::Refused { .. } => false,
    }
}

/// Whether a signed timestamp lies within `window_s` seconds of the clock, both ends included.
pub fn is_fresh(timestamp_s: i64, now: Utc, window_s: u64) -> bool {
    // Compared by subtraction in i128: a timestamp may be any number an agent can write.
    let apart = i128::from(timestamp_s).abs_diff(i128::from(now.seconds()));
    apart <= u128::from(window_s)
}
