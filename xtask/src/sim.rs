//! `cargo xtask sim`: runs simulated worlds. It passes its arguments to the simulator; without arguments it runs the
//! same worlds as CI.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;

/// The arguments in CI. The run takes about two minutes on two idle processors.
const FULL: [&str; 3] = ["--to", "10000", "--table"];

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut command = cargo(&["run", "--quiet", "--locked", "--package", "bursar-simulator", "--"]);
    if arguments.is_empty() {
        command.args(FULL);
    }
    let status = command.args(arguments).status().context("cannot run cargo")?;
    ensure!(status.success(), "the simulator ended with {status}");
    Ok(())
}

/// Returns the command that CI runs, with the program that the tests of the workspace have just built.
///
/// `cargo run --package` would select other features and rebuild all dependencies of the simulator.
pub(crate) fn built() -> anyhow::Result<Command> {
    let own = env::current_exe().context("cannot find the build folder")?;
    let program = own.with_file_name(format!("bursar-sim{}", env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "the tests have not built {}", program.display());
    let mut command = Command::new(program);
    command.args(FULL);
    Ok(command)
}
