//! Calls of bearer agents without a key: a repeat is merged with the first call of the same content.
//!
//! A repeat may be a new request only if the first call was refused, may have been rejected before any transaction was
//! broadcast, or may have ended and is ten minutes old. A plan may be rejected at any moment until it broadcasts; the
//! id of a new request shows that it was rejected.

use super::slots::Slot;
use super::{Plan, PlanBook, PlanState};
use crate::clocks::{Instant, Time};

/// Repeats within this time are merged with the first call, whether its request has ended or not (10 minutes).
const MERGE_MS: i64 = 600_000;

/// Facts about the first call of a content.
pub(crate) struct FirstCall<'a> {
    /// Instants at which the wallet may have recorded the call.
    moments: &'a [Instant],
    accepted: bool,
    lost: bool,
    refused: bool,
    /// The instant at which an answer showed that the request had been executed.
    executed: Option<Instant>,
    /// Whether the request has ended, or may have ended, without effect.
    may_have_failed: bool,
    /// Whether an answer or an order shows that the request's plan began, and no answer shows that the plan ended.
    began: bool,
    /// Whether a transaction of the request was broadcast.
    was_broadcast: bool,
    /// Whether the request has surely not ended.
    surely_runs: bool,
}

impl FirstCall<'_> {
    /// Returns whether a call of the same content may be a new request now.
    pub(crate) fn may_be_over(&self, time: &Time) -> bool {
        let outdated = self.moments.iter().any(|at| may_have_passed(at, time));
        if !self.accepted {
            // A call that was lost may have become a request, which may have ended since.
            return self.refused || (self.lost && outdated);
        }
        self.refused
            || (self.may_have_failed && !self.was_broadcast)
            || (outdated && !self.surely_runs)
    }

    /// Returns whether the request's plan may have been rejected without an answer that shows the rejection.
    pub(crate) fn may_be_rejected(&self) -> bool {
        self.began && !self.was_broadcast
    }

    /// Returns whether a call of the same content that arrived at this instant is surely a new request.
    pub(crate) fn is_surely_over(&self, arrived: &Instant) -> bool {
        let ended = self.executed.and_then(|at| at.elapsed(arrived).1).is_some_and(|ms| ms > 0);
        let passed = |at: &Instant| at.elapsed(arrived).1.is_some_and(|ms| ms > MERGE_MS);
        ended && !self.moments.is_empty() && self.moments.iter().all(passed)
    }
}

/// Returns whether ten minutes may have passed. Within one boot the boot clock decides, because the wall clock may be
/// set.
fn may_have_passed(at: &Instant, time: &Time) -> bool {
    let now = time.instant();
    let by_wall = time.latest_ms.saturating_sub(at.wall_ms) >= MERGE_MS;
    match at.elapsed(&now).1 {
        Some(ms) => ms >= MERGE_MS,
        None => by_wall || i64::try_from(now.boot_ms).is_ok_and(|ms| ms >= MERGE_MS),
    }
}

/// Returns whether the main transaction of a plan was sent to a node and is in no block yet.
fn is_in_flight(main: &Slot) -> bool {
    !main.is_unsent() && !main.is_done()
}

impl<P: Plan> PlanBook<P> {
    pub(crate) fn first_call(&self, key: u64, time: &Time) -> Option<FirstCall<'_>> {
        let rec = self.records.get(&key)?;
        let now = time.instant();
        let executed = rec.end.as_ref().is_some_and(P::State::is_executed);
        let all = &rec.authorizations;
        let lapsed = !all.is_empty() && all.iter().all(|auth| auth.may_have_lapsed(&now));
        Some(FirstCall {
            moments: &rec.acceptance_instants,
            accepted: rec.accepted,
            lost: rec.lost,
            refused: rec.refused.is_some(),
            executed: rec.ended.filter(|_| executed),
            may_have_failed: rec.may_have_failed() || lapsed,
            began: rec.may_have_begun(),
            was_broadcast: self.slots.of_record(key).any(|(_, slot)| !slot.is_unsent()),
            surely_runs: rec.is_surely_held(&now)
                || self.main_of(key).is_some_and(|(_, slot)| is_in_flight(slot)),
        })
    }
}
