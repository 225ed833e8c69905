//! From a run that fails to a short one that fails alike.

use crate::faults::Plant;
use crate::plan::{Plan, Step};
use crate::run::{Failure, run};

/// Leaves out steps for as long as the same rule is broken without them.
pub fn shrink(plan: &Plan, plant: Option<Plant>, failure: &Failure) -> (Plan, Failure) {
    let watchful = failure.rule == "I-c";
    let mut best = Plan { watchful, ..plan.clone() };
    let mut failed = failure.clone();
    // What comes after the failure has no part in it, unless it is what brings everything to its end.
    best.steps.truncate(failure.step + 1);
    match run(&best, plant) {
        Err(again) if again.rule == failed.rule => failed = again,
        _passes => best = plan.clone(),
    }
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        let mut from = 0;
        while from < best.steps.len() {
            let mut steps: Vec<Step> = best.steps.clone();
            steps.drain(from..(from + size).min(best.steps.len()));
            let shorter = Plan { steps, ..best.clone() };
            match run(&shorter, plant) {
                Err(again) if again.rule == failed.rule => (best, failed) = (shorter, again),
                _passes => from += size,
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
    (best, failed)
}
