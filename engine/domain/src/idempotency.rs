//! Same ask, same answer. An ask is recognised by its identity, kept in the journal: the answer to a
//! repeat does not depend on memory, and hardly on the clock.

use bursar_core::codes::Code;
use bursar_core::time::{Moment, Utc};

use crate::identity::Identity;
use crate::requests::{Request, Status};

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
