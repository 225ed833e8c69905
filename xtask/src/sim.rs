//! `cargo xtask sim`: simulated worlds. Without arguments as many as CI runs; the arguments are those of the
//! simulator, which does the work.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};

/// What CI runs, in a minute and a half on two processors that have nothing else to do.
const FULL: [&str; 3] = ["--to", "10000", "--table"];

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--locked", "--package", "bursar-simulator", "--"]);
    if arguments.is_empty() {
        command.args(FULL);
    }
    let status = command.args(arguments).status().context("cannot run cargo")?;
    ensure!(status.success(), "the simulator ended with {status}");
    Ok(())
}

/// As CI runs it: what the tests of the workspace have just built. Built alone, its dependencies have other
/// features, and are all built once more.
pub(crate) fn built() -> anyhow::Result<Command> {
    let own = env::current_exe().context("cannot find the simulator")?;
    let program = own.with_file_name(format!("bursar-sim{}", env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "the tests have not built {}", program.display());
    let mut command = Command::new(program);
    command.args(FULL);
    Ok(command)
}
