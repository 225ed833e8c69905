//! Shrinks a failing plan to a short one that fails in the same way.

use crate::faults::PlantedBug;
use crate::plan::{Plan, Step};
use crate::run::{Failure, run};

/// Removes steps as long as the run still breaks the same rule. Returns the shorter plan and its failure.
pub fn shrink(plan: &Plan, plant: Option<PlantedBug>, failure: &Failure) -> (Plan, Failure) {
    let watchful = failure.rule == "I-c";
    let mut best = Plan { watchful, ..plan.clone() };
    let mut failed = failure.clone();
    // Steps after the failure rarely matter. If the plan no longer fails without them, keep them.
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
