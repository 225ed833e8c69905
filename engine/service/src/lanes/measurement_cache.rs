//! Caches the measurements of requests and approvals. The first step of a plan uses the measurement of its request if
//! the measurement is fresh and the paying address has opened no transaction since.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bursar_core::ids::RequestId;
use bursar_domain::plan::Execution;
use bursar_submit::Outbox;

/// Maximum age of a measurement that a first step may use, in milliseconds: less than the block time of Base.
const MEASUREMENT_FRESH_MS: u64 = 1_500;

/// Maximum number of cached measurements. If the cache is full, the first step of a plan measures again.
const MEASUREMENTS_MAX: usize = 64;

/// A lane's measurement for one request.
pub(super) trait Measurement {
    /// Returns when the measurement began, by [`Moment::age_clock_ms`](bursar_core::time::Moment::age_clock_ms).
    fn at_ms(&self) -> u64;

    /// Returns whether the execution was allowed on the basis of this measurement.
    fn is_basis_of(&self, execution: &Execution) -> bool;
}

/// The newest measurements, each for one request.
#[derive(Debug)]
pub(super) struct MeasurementCache<M>(Mutex<BTreeMap<RequestId, (Arc<Outbox>, M)>>);

impl<M> Default for MeasurementCache<M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<M: Measurement> MeasurementCache<M> {
    /// Caches a measurement, unless the cache is full.
    ///
    /// `outbox` is the state of the paying address's outbox before the measurement.
    pub(super) fn insert(&self, id: RequestId, outbox: Arc<Outbox>, measured: M) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = measured.at_ms();
        kept.retain(|_id, (_outbox, older)| is_fresh(older, now_ms));
        if kept.len() < MEASUREMENTS_MAX {
            kept.insert(id, (outbox, measured));
        }
    }

    /// Removes the measurement of a plan and returns it if it is still valid for the plan's first step.
    ///
    /// `outbox` is the current state of the paying address's outbox.
    pub(super) fn take(
        &self,
        id: RequestId,
        execution: &Execution,
        outbox: &Outbox,
        now_ms: u64,
    ) -> Option<M> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let (before, measured) = taken?;
        let untouched = outbox.open.is_empty() && *before == *outbox;
        let first = execution.steps.is_empty() && execution.permit.is_none();
        let holds = measured.is_basis_of(execution) && is_fresh(&measured, now_ms);
        (untouched && first && holds).then_some(measured)
    }
}

fn is_fresh(measured: &impl Measurement, now_ms: u64) -> bool {
    now_ms.saturating_sub(measured.at_ms()) <= MEASUREMENT_FRESH_MS
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use bursar_chain::clock::manual::ManualClock;
    use bursar_chain::ports::Clock;
    use bursar_core::money::{Atoms, Usd};
    use bursar_core::networks::ChainId;
    use bursar_core::time::Utc;
    use bursar_domain::plan::{PlanStep, StepPurpose, Volume};
    use bursar_domain::requests::{Approver, Deadline};
    use bursar_domain::trades::TradeQuote;
    use bursar_submit::{OutboxKey, SubmissionId};

    use super::*;

    const AT_MS: u64 = 5_000;

    #[derive(Debug)]
    struct Measured {
        quote: TradeQuote,
        floor: Atoms,
    }

    impl Measurement for Measured {
        fn at_ms(&self) -> u64 {
            AT_MS
        }

        fn is_basis_of(&self, execution: &Execution) -> bool {
            Some(&self.quote) == execution.quote.trade() && self.floor >= execution.floor
        }
    }

    fn measured() -> Measured {
        let quote = TradeQuote { out: Atoms(U256::from(1_000)), ..TradeQuote::default() };
        Measured { quote, floor: Atoms(U256::from(990)) }
    }

    fn execution() -> Execution {
        let moment = ManualClock::new(Utc::from_seconds(1_000)).now();
        Execution {
            by: Approver::Policy,
            at: moment.utc,
            started: 1,
            until: Deadline::in_ms(&moment, 1_000),
            quote: measured().quote.into(),
            floor: measured().floor,
            counted_value: Usd::ZERO,
            volume: Volume::Reserved,
            permit: None,
            steps: Vec::new(),
            end: None,
        }
    }

    /// Returns whether the cache yields the measurement `later_ms` after it began.
    fn is_reused(execution: &Execution, outbox: &Outbox, later_ms: u64) -> bool {
        let kept = MeasurementCache::default();
        let id = RequestId::from_entropy([1; 16]);
        let before = Outbox::new(OutboxKey { chain: ChainId(8453), signer: Address::ZERO });
        kept.insert(id, Arc::new(before), measured());
        let first = kept.take(id, execution, outbox, AT_MS + later_ms).is_some();
        assert!(kept.take(id, execution, outbox, AT_MS).is_none(), "it is taken once");
        first
    }

    #[test]
    fn a_measurement_grows_old_without_a_boot_clock() {
        let new = || ManualClock::new(Utc::from_seconds(1_000));
        for clock in [new(), new().without_boot_clock()] {
            clock.advance(AT_MS);
            let began_ms = clock.now().age_clock_ms();
            assert_eq!(began_ms, AT_MS);
            clock.advance(MEASUREMENT_FRESH_MS + 1);
            assert!(!is_fresh(&measured(), clock.now().age_clock_ms()));
        }
    }

    #[test]
    fn a_measurement_serves_once_for_the_first_step_of_its_plan() {
        let outbox = Outbox::new(OutboxKey { chain: ChainId(8453), signer: Address::ZERO });
        assert!(is_reused(&execution(), &outbox, 0));
        assert!(is_reused(&execution(), &outbox, MEASUREMENT_FRESH_MS));
        assert!(!is_reused(&execution(), &outbox, MEASUREMENT_FRESH_MS + 1), "too old");

        let step = PlanStep {
            purpose: StepPurpose::Allowance,
            submission: SubmissionId([0; 16]),
            outcome: None,
        };
        assert!(!is_reused(&Execution { steps: vec![step], ..execution() }, &outbox, 0));
        let higher = Atoms(U256::from(991));
        assert!(
            !is_reused(&Execution { floor: higher, ..execution() }, &outbox, 0),
            "another floor"
        );
        let quote = TradeQuote { block: 8, ..measured().quote }.into();
        assert!(!is_reused(&Execution { quote, ..execution() }, &outbox, 0), "another measurement");
        let used = Outbox { floor: 1, ..outbox };
        assert!(!is_reused(&execution(), &used, 0), "a transaction was opened since");
    }
}
