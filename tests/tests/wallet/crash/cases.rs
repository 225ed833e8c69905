//! Selects the fault points to test and runs scenarios in parallel.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;

use bursar_tests::process::StartOptions;

use crate::crash::scenario::{Scenario, Step, StepError};

/// Number of scenarios in parallel. A scenario waits more for the disk than for a processor.
const CONCURRENT_SCENARIOS: usize = 4;

/// Returns the points that a run reaches, in order, each with the step in progress.
pub(crate) async fn points_reached(life: &[Step], fault: Option<&str>) -> Vec<(Step, String)> {
    let mut scenario = Scenario::new();
    let file = scenario.home().join("reached");
    let env = vec![("BURSAR_TEST_REACHED".to_owned(), file.display().to_string())];
    let start = StartOptions { env, fault: fault.map(str::to_owned), ..StartOptions::default() };
    scenario.start(&start).await.expect("nothing kills it");
    let mut hits = Vec::new();
    for step in life {
        match scenario.run_step(*step, false).await {
            Ok(()) | Err(StepError::Refused(_)) => {}
            Err(other) => panic!("{step:?}: {other:?}"),
        }
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        let new = lines.lines().skip(hits.len()).map(|point| (*step, point.to_owned()));
        hits.extend(new.collect::<Vec<_>>());
    }
    hits
}

/// Returns the cases to test: the first three hits of each point, and its first hit in each step.
pub(crate) fn choose_cases(reached: &[(Step, String)]) -> Vec<(String, usize)> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known_steps: Vec<(&str, Step)> = Vec::new();
    let mut cases = BTreeSet::new();
    for (step, point) in reached {
        let time = times.entry(point).or_insert(0);
        *time += 1;
        let first_in_step = !known_steps.contains(&(point, *step));
        if *time <= 3 || first_in_step {
            known_steps.push((point, *step));
            cases.insert((point.clone(), *time));
        }
    }
    cases.into_iter().collect()
}

/// Runs `run_case` for each case, several in parallel, and names every case that fails.
pub(crate) fn run_all<C, F>(cases: Vec<C>, run_case: impl Fn(C) -> F + Sync)
where
    C: std::fmt::Debug + Clone + Send,
    F: Future<Output = ()>,
{
    let waiting = Mutex::new(VecDeque::from(cases));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _worker in 0..CONCURRENT_SCENARIOS {
            scope.spawn(|| {
                loop {
                    let Some(case) = waiting.lock().unwrap().pop_front() else { return };
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build();
                    let work = || runtime.unwrap().block_on(run_case(case.clone()));
                    if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
                        failed.lock().unwrap().push(format!("{case:?}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}
