//! Counts the situations that the runs reached, so that a workload without coverage fails.

use std::collections::BTreeMap;

/// Counts what happened in the runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            *self.0.entry(what).or_default() += times;
        }
    }

    pub(crate) fn assert_covers(&self) {
        for what in [
            "succeeded",
            "reverted",
            "cancelled",
            "dropped",
            "displaced",
            "filled",
            "reorganised",
            "killed before the commit",
            "killed after the commit",
            "bumped",
            "lied",
            "late signature",
            "wrong signature",
            "declined",
            "forgotten",
            "foreign",
            "too late",
        ] {
            let times = self.0.get(what).copied().unwrap_or(0);
            assert!(times >= 100, "{what}: {times} times");
        }
    }
}
