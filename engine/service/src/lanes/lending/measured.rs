//! The result of measuring a loan.

use bursar_domain::Refusal;
use bursar_domain::loans::LoanQuote;
use bursar_domain::plan::Execution;

use super::rehearse::LoanPlan;
use crate::lanes::measurement_cache::Measurement;

/// A measured loan.
#[derive(Debug, Clone)]
pub struct Measured {
    /// When the measurement began, by [`Moment::age_clock_ms`](bursar_core::time::Moment::age_clock_ms).
    pub(super) at_ms: u64,
    pub(super) quote: LoanQuote,
    /// The rehearsed plan, or why there is none.
    pub(super) plan: Result<LoanPlan, Refusal>,
}

impl Measurement for Measured {
    fn at_ms(&self) -> u64 {
        self.at_ms
    }

    fn is_basis_of(&self, execution: &Execution) -> bool {
        Some(&self.quote) == execution.quote.loan()
    }
}

impl Measured {
    /// Returns the quote of the measurement.
    pub fn quote(&self) -> &LoanQuote {
        &self.quote
    }
}
