//! `cargo xtask fuzz`: sends mutated input to the real programs.
//!
//! It builds the programs and passes its arguments to the fuzzer. Without arguments it runs the same inputs as CI.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;
use crate::times::{self, Job};

/// The fuzzer and the programs that it starts.
const PACKAGES: [&str; 5] =
    ["bursar-fuzz", "bursar", "bursar-facilitator", "bursar-proxy", "bursar-tests"];
/// The arguments in CI. Such a run takes less than a minute on two idle processors.
const CI_ARGUMENTS: [&str; 2] = ["--seed", "1"];

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut build = cargo(&["build", "--quiet", "--locked", "--bins"]);
    for name in PACKAGES {
        build.args(["--package", name]);
    }
    let status = build.status().context("cannot run cargo")?;
    ensure!(status.success(), "the programs were not built: {status}");
    let mut command = program()?;
    if arguments.is_empty() {
        command.args(CI_ARGUMENTS);
    }
    let status = command.args(arguments).status().context("cannot run the fuzzer")?;
    ensure!(status.success(), "the fuzzer ended with {status}");
    Ok(())
}

/// Returns the fuzzer run of CI, with the programs that [`times::build`] has built.
pub(crate) fn ci_job() -> anyhow::Result<Job> {
    let mut command = program()?;
    command.args(CI_ARGUMENTS);
    Ok(Job::new("fuzzer", command))
}

fn program() -> anyhow::Result<Command> {
    Ok(Command::new(times::built_program("bursar-fuzz")?))
}
