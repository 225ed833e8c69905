//! Idempotency: the same request gets the same answer. A request is recognised by its identity, which the journal
//! keeps, so a repeat gets the same answer after a restart too.

use bursar_core::codes::Code;
use bursar_core::time::{Moment, Utc};

use crate::identity::Identity;
use crate::requests::{Request, Status};

/// What the indexes know about a request. The core looks it up before it decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prior {
    /// The newest request with the same identity.
    pub same: Option<Request>,
    /// A settled payment with the same identity: the newest request or an earlier one.
    pub paid: Option<Request>,
    /// The request that last used the same idempotency key.
    pub claimed: Option<Request>,
}

/// How a request that may be a repeat is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// It is not a repeat.
    New,
    /// It gets the answer of this earlier request.
    Same(Box<Request>),
    /// It repeats this payment, which is settled.
    Settled(Box<Request>),
    Refuse(Code),
}

/// Decides whether a request is a repeat, and of which request.
///
/// Implements the table "Same ask, same answer" of the specification. `is_open` says whether a device may have signed
/// redeemable terms of the newest request, although that ended without a signature: until they lapse, it is not paid again.
pub fn repeat(prior: &Prior, identity: &Identity, moment: &Moment, is_open: bool) -> Repeat {
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
    if is_open || is_remembered(first, moment) || (signed && !spent) {
        Repeat::Same(Box::new(first.clone()))
    } else if signed {
        Repeat::Refuse(Code::PaymentExpired)
    } else if let Some(paid) = &prior.paid {
        // An earlier payment lapsed. The agent requested it again as `first`, and then reported the earlier payment
        // as settled.
        Repeat::Settled(Box::new(paid.clone()))
    } else {
        Repeat::New
    }
}

/// Returns whether a repeat still gets the answer of `first`: its hold or authorization is open, or the period of its
/// result has not ended. For signed requests, [`repeat`] applies this limit only to authorizations.
fn is_remembered(first: &Request, moment: &Moment) -> bool {
    match &first.status {
        // A bearer agent's trade is only recognised by its idempotency key.
        Status::Held { .. }
        | Status::Executing(_)
        | Status::Ended(_)
        | Status::AwaitingDevice(_) => true,
        Status::Authorized { .. } => first.is_redeemable(moment.utc),
        Status::Denied { told_until, .. }
        | Status::Expired { told_until, .. }
        | Status::NotSigned { told_until, .. } => !told_until.has_passed(moment),
        Status::Refused { .. } => false,
    }
}

/// Returns whether a signed timestamp is at most `window_s` seconds off the clock.
pub fn is_fresh(timestamp_s: i64, now: Utc, window_s: u64) -> bool {
    // Compared in i128, so that no timestamp that an agent can write overflows.
    let apart = i128::from(timestamp_s).abs_diff(i128::from(now.seconds()));
    apart <= u128::from(window_s)
}
