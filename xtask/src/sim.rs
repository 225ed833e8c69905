//! `cargo xtask sim`: runs simulated worlds. It passes its arguments to the simulator; without arguments it runs the
//! same worlds as CI.

use std::env;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;

/// The arguments for the worlds that every run plays. They take two to four minutes on two idle processors.
const FIXED: [&str; 3] = ["--to", "10000", "--table"];

/// Number of worlds whose seeds follow from the commit.
const DRAWN: u64 = 500;

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let program = || cargo(&["run", "--quiet", "--locked", "--package", "bursar-simulator", "--"]);
    if arguments.is_empty() {
        return play(program);
    }
    finish(program().args(arguments))
}

/// Plays the worlds of CI with the program that the tests of the workspace have just built.
///
/// `cargo run --package` would select other features and rebuild all dependencies of the simulator.
pub(crate) fn run_built() -> anyhow::Result<()> {
    let own = env::current_exe().context("cannot find the build folder")?;
    let program = own.with_file_name(format!("bursar-sim{}", env::consts::EXE_SUFFIX));
    ensure!(program.is_file(), "the tests have not built {}", program.display());
    play(|| Command::new(&program))
}

fn play(program: impl Fn() -> Command) -> anyhow::Result<()> {
    finish(program().args(FIXED))?;
    let Some(first) = first_drawn() else {
        eprintln!("sim: there is no commit, so no further seeds are drawn from it");
        return Ok(());
    };
    let (from, to) = (first.to_string(), (first + DRAWN).to_string());
    finish(program().args(["--from", &from, "--to", &to]))
}

/// Returns the first drawn seed: the same wherever this commit's tree is checked out.
fn first_drawn() -> Option<u64> {
    let tree = Command::new("git").args(["rev-parse", "--verify", "HEAD^{tree}"]).output().ok()?;
    let hash = String::from_utf8(tree.stdout).ok()?;
    u64::from_str_radix(hash.get(..12)?, 16).ok()
}

fn finish(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?} did not start"))?;
    ensure!(status.success(), "the simulator ended with {status}");
    Ok(())
}
