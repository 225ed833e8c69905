//! Applies a policy to one request. Each lane has a file with its rules, which are pure functions.

pub mod lending;
pub mod payments;
pub mod rehearsal;
pub mod trading;

use bursar_core::card::HoldReason;
use bursar_core::codes::Code;
use bursar_core::limits::{CLOCK_OFF_CHAIN_MS_MAX, HELD_PER_AGENT_MAX, HELD_TOTAL_MAX};
use bursar_core::time::Moment;

use crate::refusal::Refusal;

/// What the policy decides about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Act,
    Hold(HoldReason),
    Refuse(Refusal),
}

/// Returns whether this machine's clock is over 10 minutes off the newest known block.
pub fn clock_is_off(moment: &Moment) -> bool {
    let apart = moment.chain_hint.map(|chain| moment.utc.since_ms(chain).unsigned_abs());
    apart.is_some_and(|apart| apart > CLOCK_OFF_CHAIN_MS_MAX.unsigned_abs())
}

/// Holds a request, or refuses it if the queue is full.
pub(crate) fn hold(reason: HoldReason, held_by_agent: usize, held_in_all: usize) -> Verdict {
    if is_full(held_by_agent, held_in_all) {
        Verdict::Refuse(Refusal::new(Code::TooManyPending))
    } else {
        Verdict::Hold(reason)
    }
}

/// Returns whether the queue has no room for another request.
pub(crate) fn is_full(by_agent: usize, in_all: usize) -> bool {
    by_agent >= HELD_PER_AGENT_MAX || in_all >= HELD_TOTAL_MAX
}
