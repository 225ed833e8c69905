//! Runs one world from its plan to its end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::faults::PlantedBug;
use crate::plan::Plan;
use crate::tape::TapeEntry;
use crate::world::World;

/// The result of a run that passed.
#[derive(Debug, Default)]
pub struct Outcome {
    pub observations: u64,
    pub processes: u32,
    /// The number of deaths by fault point.
    pub deaths: BTreeMap<&'static str, u64>,
    /// Codes that were returned to agents and operators.
    pub codes: BTreeMap<String, u64>,
    /// The number of cases that the auditor judged, by rule.
    pub rule_counts: BTreeMap<&'static str, u64>,
    /// The last observations. Equal plans give equal observations.
    pub tail: Vec<String>,
}

/// The reason and the place of a run's failure.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step after which the failure was noticed.
    pub step: usize,
    pub rule: String,
    pub description: String,
    /// The last observations before the failure.
    pub tail: Vec<String>,
}

/// Runs a plan to its end.
///
/// # Errors
/// If the auditor or the world itself finds a violation, or the engine panics.
pub fn run(plan: &Plan, plant: Option<PlantedBug>) -> Result<Outcome, Failure> {
    run_with_tail(plan, plant, false)
}

/// Like [`run`]. If `with_tail`, also returns the observations in [`Outcome::tail`].
///
/// # Errors
/// As [`run`].
pub fn run_with_tail(
    plan: &Plan,
    plant: Option<PlantedBug>,
    with_tail: bool,
) -> Result<Outcome, Failure> {
    let mut world = World::new(plan, plant);
    let result = catch_unwind(AssertUnwindSafe(|| world.run(plan)));
    let step = world.step_number;
    let line = |(at, seen): (usize, TapeEntry)| format!("{at}: {seen:?}");
    let tail = std::mem::take(&mut world.tail);
    let tail = || tail.into_iter().map(line).collect::<Vec<String>>();
    match result {
        Ok(Ok(())) if with_tail => Ok(Outcome { tail: tail(), ..world.end() }),
        Ok(Ok(())) => Ok(world.end()),
        Ok(Err((rule, description))) => Err(Failure { step, rule, description, tail: tail() }),
        Err(payload) => {
            let description = payload.downcast_ref::<String>().cloned();
            let description =
                description.or(payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let description = description.unwrap_or_else(|| "a panic without a message".to_owned());
            Err(Failure { step, rule: "panic".to_owned(), description, tail: tail() })
        }
    }
}
