//! `cargo xtask sim`: simulated worlds. Without arguments as many as CI runs; the arguments are those of the
//! simulator, which does the work.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};

/// What CI runs, in a minute and a half on two processors that have nothing else to do.
const SEEDS: &str = "10000";

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let status = simulator(arguments).status().context("cannot run cargo")?;
    ensure!(status.success(), "the simulator ended with {status}");
    Ok(())
}

pub(crate) fn simulator(arguments: &[String]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--locked", "--package", "bursar-simulator", "--"]);
    if arguments.is_empty() {
        command.args(["--to", SEEDS, "--table"]);
    }
    command.args(arguments);
    command
}
