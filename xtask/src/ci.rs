//! `cargo xtask ci`: the checks that CI runs and that a developer runs before asking for a review.
//!
//! The steps are format, lints, documentation, dependencies, the workspace's tests, those of the developer build, the
//! simulation and the fuzzer.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};

/// The version of cargo-deny that checks our rules. It is installed once into cargo's home folder.
const DENY: &str = "0.20.2";

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
    let mut deny = Command::new(deny()?);
    deny.args(["--locked", "check", "bans", "licenses", "sources"]);
    step("dependencies", deny)?;
    timed("tests", || crate::times::slowest(cargo(&["test", "--workspace", "--locked"])))?;
    // With the workspace's features, so that only the program itself is built again.
    let emulator = ["bursar/emulator", "--bin", "bursar", "devices"];
    let build = ["test", "--workspace", "--locked", "--features"];
    step("developer build", cargo(&[&build[..], &emulator].concat()))?;
    step("simulation", crate::sim::built()?)?;
    step("fuzzer", crate::fuzz::built()?)?;
    eprintln!("ci: all steps passed in {} s", started.elapsed().as_secs());
    Ok(())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

fn step(name: &str, mut command: Command) -> anyhow::Result<()> {
    timed(name, || {
        let status = command.status().with_context(|| format!("{command:?} did not start"))?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(())
    })
}

fn timed(name: &str, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let started = Instant::now();
    eprintln!("ci: {name}");
    run().with_context(|| format!("{name} failed"))?;
    eprintln!("ci: {name} passed in {} s", started.elapsed().as_secs());
    Ok(())
}

/// Returns the path of cargo-deny at the pinned version; installs it if it is missing.
fn deny() -> anyhow::Result<PathBuf> {
    let home = cargo_home()?;
    let root = home.join("bursar-tools").join(format!("cargo-deny-{DENY}"));
    let program = root.join("bin").join("cargo-deny");
    if !program.is_file() {
        let mut install =
            cargo(&["install", "--locked", "cargo-deny", "--version", DENY, "--root"]);
        install.arg(&root);
        step("install cargo-deny", install)?;
    }
    Ok(program)
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    if let Some(home) = env::var_os("CARGO_HOME").filter(|home| !home.is_empty()) {
        return Ok(PathBuf::from(home));
    }
    let user = env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&user).join(".cargo"))
}
