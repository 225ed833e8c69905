//! Idempotency: the same request gets the same answer. A request is recognised by its identity, which the journal
//! keeps, so a repeat gets the same answer after a restart too.

use bursar_core::codes::Code;
use bursar_core::limits::HOLD_MS;
use bursar_core::time::{Moment, Utc};

use crate::identity::Identity;
use crate::plan::{Execution, PLAN_MS};
use crate::requests::{Request, Status};

/// How long a trade or loan without signature and idempotency key is recognised by its content, in milliseconds.
///
/// The period begins at the request. It is longer than agents retry a call whose answer they lost, and shorter than
/// the interval after which most agents repeat a trade on purpose.
const CONTENT_MERGE_MS: i64 = 600_000;
const MERGED_AFTER_PLAN_MS: i64 = CONTENT_MERGE_MS - PLAN_MS;

/// The earlier requests in the indexes that match a new request.
///
/// The core reads them before it decides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prior {
    /// The newest request with the same identity.
    pub newest: Option<Request>,
    /// A settled payment with the same identity: the newest request or an earlier one.
    pub settled_payment: Option<Request>,
    /// The request that last used the same idempotency key.
    pub last_with_key: Option<Request>,
}

/// How a request that may be a repeat is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repeat {
    /// The request is not a repeat.
    New,
    /// The request gets the answer of this earlier request.
    Same(Box<Request>),
    /// The request repeats this payment, which is settled.
    Settled(Box<Request>),
    Refuse(Code),
}

/// Decides whether a request is a repeat, and of which request.
///
/// Implements the table "Same ask, same answer" of the specification. `is_open` is true if the newest request ended
/// without a signature, but a device may have signed its terms. Until those terms lapse, the request is not paid
/// again.
pub fn repeat(prior: &Prior, identity: &Identity, moment: &Moment, is_open: bool) -> Repeat {
    if let (Some(claim), Some(first)) = (identity.claim(), &prior.last_with_key) {
        let other = first.identity.claim().is_some_and(|first| first.content != claim.content);
        if other && is_remembered(first, moment) {
            return Repeat::Refuse(Code::IdempotencyConflict);
        }
    }
    let Some(first) = &prior.newest else { return Repeat::New };
    let signed = matches!(identity, Identity::Hmac { .. });
    let spent = matches!(first.status, Status::Authorized { .. });
    if let Some(paid) = prior.settled_payment.as_ref().filter(|paid| paid.id == first.id) {
        return Repeat::Settled(Box::new(paid.clone()));
    }
    if is_open || is_remembered(first, moment) || (signed && !spent) {
        Repeat::Same(Box::new(first.clone()))
    } else if signed {
        Repeat::Refuse(Code::PaymentExpired)
    } else if let Some(paid) = &prior.settled_payment {
        // An earlier payment lapsed. The agent requested it again as `first`, and then reported the earlier payment
        // as settled.
        Repeat::Settled(Box::new(paid.clone()))
    } else {
        Repeat::New
    }
}

/// Returns whether a repeat still gets the answer of `first`.
///
/// A held, waiting or redeemable request is remembered, and an ended one until its `told_until`. A plan is always
/// remembered, unless the request has only its content as identity. For signed requests, [`repeat`] applies these
/// limits only to authorizations.
fn is_remembered(first: &Request, moment: &Moment) -> bool {
    match &first.status {
        Status::Held { .. } | Status::AwaitingDevice(_) => true,
        Status::Executing(execution) | Status::Ended(execution) => {
            !first.identity.is_by_content() || is_merged(first, execution, moment)
        }
        Status::Authorized { .. } => first.is_redeemable(moment.utc),
        Status::Denied { repeatable_until: told_until, .. }
        | Status::Expired { repeatable_until: told_until, .. }
        | Status::NotSigned { repeatable_until: told_until, .. } => !told_until.has_passed(moment),
        Status::Refused { .. } => false,
    }
}

/// Returns whether a request with the same content still repeats `first`, whose plan is `execution`.
///
/// It repeats `first` until the plan has ended and [`CONTENT_MERGE_MS`] have passed since `first`. If the plan ended
/// before any broadcast, the request is a new one.
fn is_merged(first: &Request, execution: &Execution, moment: &Moment) -> bool {
    if execution.end.is_none() {
        return true;
    }
    // The period is computed from the plan's deadline, because that is known on the boot clock too. The deadline
    // counts from the approval, so the time of the hold is subtracted.
    let waited_ms = execution.at.since_ms(first.created).clamp(0, HOLD_MS);
    let until = execution.until.plus_ms(MERGED_AFTER_PLAN_MS.saturating_sub(waited_ms));
    execution.may_have_broadcast() && until.left_by_boot_ms(moment, CONTENT_MERGE_MS) > 0
}

/// Returns whether a signed timestamp differs by at most `window_s` seconds from the clock.
pub fn is_fresh(timestamp_s: i64, now: Utc, window_s: u64) -> bool {
    // Compared in i128, so that no timestamp that an agent sends can overflow.
    let apart = i128::from(timestamp_s).abs_diff(i128::from(now.seconds()));
    apart <= u128::from(window_s)
}
