//! A disk that refuses one write of the wallet file, at each of its steps.

use bursar_core::codes::Code;
use bursar_tests::process::StartOptions;

use crate::crash::cases::{choose_cases, points_reached, run_all};
use crate::crash::scenario::{Scenario, Step, StepError, WHOLE_LIFE};

/// Runs a whole life with one failing write, and asserts that each message names the file.
///
/// A refused step can be repeated; a step with a warning has taken effect.
async fn run_life(fault: &str) {
    let mut scenario = Scenario::new();
    let start = StartOptions { fault: Some(fault.to_owned()), ..StartOptions::default() };
    scenario.start(&start).await.expect("starts");
    let wallets = scenario.folder().join("wallets").display().to_string();
    let mut refused = false;
    for step in WHOLE_LIFE {
        match scenario.run_step(*step, false).await {
            Ok(()) => {}
            Err(StepError::Refused(fault)) if !refused => {
                refused = true;
                assert_eq!(fault.code, Code::DiskFull, "{step:?}: {fault}");
                assert_helpful(&fault.message, &wallets);
                let again = scenario.run_step(*step, true).await;
                again.unwrap_or_else(|trouble| panic!("{step:?} again: {trouble:?}"));
            }
            Err(other) => panic!("{step:?}: {other:?}"),
        }
    }
    for warning in &scenario.observed.warnings {
        assert_helpful(&warning.message, &wallets);
    }
    scenario.finish().await.expect("all of it is there");
}

/// Asserts that a message names the file, the error and what to do.
fn assert_helpful(message: &str, wallets: &str) {
    for part in [wallets, "no space left on device", "then try again"] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn run_faults(wanted: impl Fn(Step) -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let met = runtime.block_on(points_reached(WHOLE_LIFE, None));
    let vault = |(_step, point): &&(Step, String)| point.starts_with("vault.");
    let cases = choose_cases(&met).into_iter().filter(|(point, n)| {
        let mut times = met.iter().filter(vault).filter(|(_step, name)| name == point);
        times.nth(n - 1).is_some_and(|(step, _point)| wanted(*step))
    });
    run_all(cases.collect(), async |(point, n)| {
        run_life(&format!("once:{point}:{n}")).await;
    });
}

#[test]
fn a_failed_save_names_the_file_and_can_be_retried() {
    run_faults(|step| step != Step::Passwd);
}

#[test]
fn a_failed_password_change_keeps_the_old_password() {
    run_faults(|step| step == Step::Passwd);
}
