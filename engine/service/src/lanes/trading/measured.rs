//! A measured trade.

use bursar_core::money::Atoms;
use bursar_core::time::Moment;
use bursar_domain::plan::{Execution, PLAN_S};
use bursar_domain::trades::TradeQuote;

use super::plan::Plan;
use crate::lanes::measurement_cache::Measurement;

/// The earlier commitments that a measurement of a trade must respect; a new request has none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PriorCommitments<'a> {
    /// The minimum output that was accepted earlier.
    pub(super) floor: Atoms,
    /// The running plan, with the steps that it has taken so far.
    pub(super) execution: Option<&'a Execution>,
    /// Whether a person signs on a device.
    pub(super) by_device: bool,
}

impl PriorCommitments<'_> {
    /// Returns how many seconds the plan has left for the person at a device; `None` if no person signs.
    pub(super) fn person_time_s(&self, now: &Moment) -> Option<u64> {
        let left = self.execution.map(|one| one.left_ms(now).div_euclid(1_000));
        self.by_device.then(|| left.unwrap_or(PLAN_S).min(PLAN_S))
    }
}

/// The prices of a trade and its rehearsed plan.
#[derive(Debug, Clone)]
pub struct Measured {
    /// When the measurement began, by [`Moment::age_clock_ms`](bursar_core::time::Moment::age_clock_ms).
    pub(super) at_ms: u64,
    pub(super) quote: TradeQuote,
    /// The minimum output that the plan's swap accepts.
    pub(super) floor: Atoms,
    /// The deadline of the plan's swap, in Unix seconds of chain time.
    pub(super) deadline: u64,
    pub(super) plan: Plan,
}

impl Measured {
    /// Returns the prices.
    pub fn quote(&self) -> &TradeQuote {
        &self.quote
    }
}

impl Measurement for Measured {
    fn at_ms(&self) -> u64 {
        self.at_ms
    }

    fn is_basis_of(&self, execution: &Execution) -> bool {
        Some(&self.quote) == execution.quote.trade() && self.floor >= execution.floor
    }
}
