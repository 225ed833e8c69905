//! `cargo xtask sim`: runs simulated worlds.
//!
//! It passes its arguments to the simulator. Without arguments it runs the same worlds as CI.

use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;
use crate::times::{self, Job, PassRecord};

/// The arguments for the worlds that every run simulates. They take two to four minutes on two idle processors.
const FIXED_WORLDS_ARGUMENTS: [&str; 3] = ["--to", "10000", "--table"];

/// The arguments for the worlds of the payments-only edition that every run simulates.
const PAYMENTS_WORLDS_ARGUMENTS: [&str; 3] = ["--payments", "--to", "2000"];

/// Number of worlds whose seeds are derived from the commit.
const DRAWN_WORLDS: u64 = 500;

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let program = || cargo(&["run", "--quiet", "--locked", "--package", "bursar-simulator", "--"]);
    if !arguments.is_empty() {
        return finish(program().args(arguments));
    }
    finish(program().args(FIXED_WORLDS_ARGUMENTS))?;
    finish(program().args(PAYMENTS_WORLDS_ARGUMENTS))?;
    drawn_worlds_arguments().map_or(Ok(()), |drawn| finish(program().args(drawn)))
}

/// Returns the simulator runs of CI, with the program that [`times::build`] has built.
///
/// They run at the lowest priority. `cargo run --package` would select other features and rebuild all dependencies of
/// the simulator. A world's run depends only on its seed and the program, so a program that has passed the fixed worlds
/// runs only the drawn ones.
pub(crate) fn ci_jobs() -> anyhow::Result<Vec<Job>> {
    let program = times::built_program("bursar-sim")?;
    let yielding = |arguments: &[&str]| {
        let mut nice = Command::new("nice");
        nice.args(["-n", "19"]).arg(&program).args(arguments);
        Job::new("simulation", nice)
    };
    let mut jobs = Vec::new();
    for arguments in [FIXED_WORLDS_ARGUMENTS, PAYMENTS_WORLDS_ARGUMENTS] {
        let record = PassRecord::of(&program, &arguments)?;
        if record.is_written() {
            let arguments = arguments.join(" ");
            eprintln!("sim: the worlds of `{arguments}` have passed already, and do not run again");
        } else {
            jobs.push(yielding(&arguments).with_record(record));
        }
    }
    jobs.extend(
        drawn_worlds_arguments().map(|drawn| yielding(&drawn.each_ref().map(String::as_str))),
    );
    Ok(jobs)
}

/// Returns the arguments for the worlds whose seeds are derived from the commit; `None` if there is no commit.
fn drawn_worlds_arguments() -> Option<[String; 4]> {
    let Some(first) = first_drawn() else {
        eprintln!("sim: there is no commit, so no further seeds are drawn from it");
        return None;
    };
    let (from, to) = (first.to_string(), (first + DRAWN_WORLDS).to_string());
    Some(["--from".to_owned(), from, "--to".to_owned(), to])
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
