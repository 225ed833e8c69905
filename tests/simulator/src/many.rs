//! Runs many worlds in parallel, one per processor.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::coverage::Coverage;
use crate::faults::PlantedBug;
use crate::plan::Plan;
use crate::run::{Failure, run};

/// The number of failures after which the runs stop.
const FAILURES_MAX: usize = 50;

/// Draws the plan of each seed with `plan_of` and runs its world. Returns the joint coverage and the failed seeds.
pub fn run_all(
    seeds: &[u64],
    plan_of: fn(u64) -> Plan,
    plant: Option<PlantedBug>,
) -> (Coverage, BTreeMap<u64, Failure>) {
    let next = AtomicUsize::new(0);
    let (total, failed) = (Mutex::new(Coverage::default()), Mutex::new(BTreeMap::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _worker in 0..workers {
            scope.spawn(|| {
                let mut coverage = Coverage::default();
                while failed.lock().expect("no panic").len() < FAILURES_MAX
                    && let Some(seed) = seeds.get(next.fetch_add(1, Ordering::SeqCst))
                {
                    let plan = plan_of(*seed);
                    match run(&plan, plant) {
                        Ok(outcome) => coverage.count(&plan, &outcome),
                        Err(failure) => {
                            failed.lock().expect("no panic").insert(*seed, failure);
                        }
                    }
                }
                total.lock().expect("no panic").add(coverage);
            });
        }
    });
    (total.into_inner().expect("no panic"), failed.into_inner().expect("no panic"))
}
