//! Runs one world from its plan to its end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bursar_auditor::observations::Observation;

use crate::faults::Plant;
use crate::plan::Plan;
use crate::world::World;

/// The result of a run that passed.
#[derive(Debug, Default)]
pub struct Outcome {
    pub seen: u64,
    pub lives: u32,
    /// Number of deaths by fault point.
    pub deaths: BTreeMap<&'static str, u64>,
    /// Codes that were returned to agents and operators.
    pub codes: BTreeMap<String, u64>,
    /// What the auditor had to judge.
    pub judged: BTreeMap<&'static str, u64>,
    /// The last observations. The same seed gives the same.
    pub tail: Vec<String>,
}

/// Why a run failed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step after which the failure was noticed.
    pub step: usize,
    pub rule: String,
    pub what: String,
    /// The last observations before the failure.
    pub tail: Vec<String>,
}

/// Runs a plan to its end.
///
/// # Errors
/// If the auditor or the world itself finds a violation, or the engine panics.
pub fn run(plan: &Plan, plant: Option<Plant>) -> Result<Outcome, Failure> {
    run_telling(plan, plant, false)
}

/// Like [`run`], and with `tells` also returns the observations in [`Outcome::tail`].
///
/// # Errors
/// As [`run`].
pub fn run_telling(plan: &Plan, plant: Option<Plant>, tells: bool) -> Result<Outcome, Failure> {
    let mut world = World::new(plan, plant);
    let ran = catch_unwind(AssertUnwindSafe(|| world.live(plan)));
    let step = world.at;
    let told = |(at, seen): (usize, Observation)| format!("{at}: {seen:?}");
    let tail = std::mem::take(&mut world.tail);
    let tail = || tail.into_iter().map(told).collect::<Vec<String>>();
    match ran {
        Ok(Ok(())) if tells => Ok(Outcome { tail: tail(), ..world.end() }),
        Ok(Ok(())) => Ok(world.end()),
        Ok(Err((rule, what))) => Err(Failure { step, rule, what, tail: tail() }),
        Err(thrown) => {
            let what = thrown.downcast_ref::<String>().cloned();
            let what = what.or(thrown.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let what = what.unwrap_or_else(|| "something".to_owned());
            Err(Failure { step, rule: "panic".to_owned(), what, tail: tail() })
        }
    }
}
