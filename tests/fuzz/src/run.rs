//! Runs each target: a valid input, the mutated inputs, the final checks, and a valid input again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::arguments::Arguments;
use crate::draw::dice_of;
use crate::programs::Programs;
use crate::report::{Failure, Report};
use crate::scene::Scene;
use crate::targets::Target;

/// Number of inputs before memory and files are first measured.
const WARM_UP_INPUTS: u64 = 60;

/// Runs every target with every seed.
pub(crate) fn run_all(arguments: &Arguments) -> Report {
    let programs = Programs::find(arguments.programs.as_deref());
    let mut report = Report::new(arguments.prints_known);
    for seed in arguments.seeds.clone() {
        for target in &arguments.targets {
            let started = Instant::now();
            let run =
                AssertUnwindSafe(|| run_target(target, seed, arguments, &programs, &mut report));
            if catch_unwind(run).is_err() {
                // A panic means that an expectation of the fuzzer itself failed, for example
                // that a program can be started.
                fail(
                    &mut report,
                    target,
                    seed,
                    None,
                    arguments,
                    "",
                    "the target panicked: see above",
                );
            }
            report.counts(target.name).seconds += started.elapsed().as_secs_f64();
        }
    }
    report
}

fn fail(
    report: &mut Report,
    target: &Target,
    seed: u64,
    number: Option<u64>,
    arguments: &Arguments,
    input: &str,
    violated: &str,
) {
    let inputs = arguments.inputs.unwrap_or(target.inputs);
    let failure = Failure { target: target.name, seed, number, inputs, input, violated };
    report.fail(target.name, &failure);
}

fn open(target: &Target, programs: &Programs, seed: u64) -> Result<Box<dyn Scene>, String> {
    let mut scene = (target.open)(programs, seed)?;
    scene.send_valid().map_err(|why| format!("the valid input failed: {why}"))?;
    Ok(scene)
}

fn run_target(
    target: &'static Target,
    seed: u64,
    arguments: &Arguments,
    programs: &Programs,
    report: &mut Report,
) {
    let inputs = arguments.inputs.unwrap_or(target.inputs);
    let mut scene = match open(target, programs, seed) {
        Ok(scene) => scene,
        Err(why) => return fail(report, target, seed, None, arguments, "", &why),
    };
    let numbers = match arguments.only_input {
        Some(only) => only..only + 1,
        None => 0..inputs,
    };
    let mut since_start = 0;
    for number in numbers {
        let outcome = scene.send_mutated(&mut dice_of(seed, target.name, number));
        let counts = report.counts(target.name);
        counts.inputs += 1;
        *counts.classes.entry(outcome.class.clone()).or_default() += 1;
        for violated in &outcome.violated {
            fail(report, target, seed, Some(number), arguments, &outcome.input, violated);
        }
        since_start += 1;
        if since_start == WARM_UP_INPUTS {
            scene.measure();
        }
        if !scene.is_alive() {
            if outcome.violated.is_empty() {
                let why = "a program ended after the answer";
                fail(report, target, seed, Some(number), arguments, &outcome.input, why);
            }
            since_start = 0;
            scene = match open(target, programs, seed) {
                Ok(scene) => scene,
                Err(why) => return fail(report, target, seed, None, arguments, "", &why),
            };
        }
    }
    for violated in scene.check_at_end() {
        fail(report, target, seed, None, arguments, "", &violated);
    }
    if let Err(why) = scene.send_valid() {
        let why = format!("the valid input failed at the end: {why}");
        fail(report, target, seed, None, arguments, "", &why);
    }
}
