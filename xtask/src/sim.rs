//! `cargo xtask sim`: runs simulated worlds.
//!
//! It passes its arguments to the simulator. Without arguments it runs the same worlds as CI.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;
use crate::times::{self, Job};

/// The arguments for the worlds that every run simulates. They take two to four minutes on two idle processors.
const FIXED_WORLDS_ARGUMENTS: [&str; 3] = ["--to", "10000", "--table"];

/// Number of worlds whose seeds are derived from the commit.
const DRAWN_WORLDS: u64 = 500;

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let program = || cargo(&["run", "--quiet", "--locked", "--package", "bursar-simulator", "--"]);
    if !arguments.is_empty() {
        return finish(program().args(arguments));
    }
    commands(program).iter_mut().try_for_each(finish)
}

/// Returns the simulator runs of CI, with the program that [`times::build`] has built.
///
/// They run at the lowest priority. `cargo run --package` would select other features and rebuild all dependencies of
/// the simulator.
pub(crate) fn ci_jobs() -> anyhow::Result<Vec<Job>> {
    let program = times::built_program("bursar-sim")?;
    let yielding = || {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(&program);
        nice
    };
    let job = |command| Job { name: "simulation".to_owned(), command };
    Ok(commands(yielding).into_iter().map(job).collect())
}

/// Returns the simulator runs of CI: the fixed worlds and those derived from the commit.
fn commands(program: impl Fn() -> Command) -> Vec<Command> {
    let (mut fixed, mut drawn) = (program(), program());
    fixed.args(FIXED_WORLDS_ARGUMENTS);
    let Some(first) = first_drawn() else {
        eprintln!("sim: there is no commit, so no further seeds are drawn from it");
        return vec![fixed];
    };
    drawn.args(["--from", &first.to_string(), "--to", &(first + DRAWN_WORLDS).to_string()]);
    vec![fixed, drawn]
}

/// Returns the first seed that is derived from the commit. It is the same wherever this commit's tree is checked out.
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
