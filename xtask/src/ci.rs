//! `cargo xtask ci`: the checks that CI runs, and that a developer runs before asking for a review.
//!
//! The steps are format, lints, documentation, dependencies, all programs, the developer build, and the tests with
//! the simulation and the fuzzer.

use std::env;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

use crate::cargo;

pub(crate) fn run(_arguments: &[String]) -> anyhow::Result<()> {
    if env::var_os("BURSAR_TEST_SKIP").is_some() {
        bail!("BURSAR_TEST_SKIP is set, so tests would be skipped: unset it");
    }
    let started = Instant::now();
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step(
        "lints",
        cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]),
    )?;
    let mut documents = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    documents.env("RUSTDOCFLAGS", "-D warnings");
    step("documents", documents)?;
    timed("dependencies", || crate::dependencies::run(&[]))?;
    let programs = timed("programs", crate::times::build)?;
    // Builds with the workspace's features, so that only the program itself is built again.
    let emulator = ["bursar/emulator", "--bin", "bursar", "devices"];
    let build = ["test", "--workspace", "--locked", "--features"];
    step("developer build", cargo(&[&build[..], &emulator].concat()))?;
    let (fuzzer, simulation) = (crate::fuzz::ci_job()?, crate::sim::ci_jobs()?);
    timed("tests", || crate::times::run_and_print_slowest(programs, vec![fuzzer], simulation))?;
    eprintln!("ci: all steps passed in {} s", started.elapsed().as_secs());
    Ok(())
}

fn step(name: &str, mut command: Command) -> anyhow::Result<()> {
    timed(name, || {
        let status = command.status().with_context(|| format!("{command:?} did not start"))?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(())
    })
}

fn timed<T>(name: &str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let started = Instant::now();
    eprintln!("ci: {name}");
    let done = run().with_context(|| format!("{name} failed"))?;
    eprintln!("ci: {name} passed in {} s", started.elapsed().as_secs());
    Ok(done)
}
