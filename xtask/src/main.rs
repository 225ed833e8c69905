//! Project chores: `cargo xtask <task>`.
//!
//! This crate depends on no other crate of the workspace. Its tasks run the other crates through cargo.

mod ci;
mod dependencies;
mod devnet;
mod fuzz;
mod pictures;
mod sim;
mod times;

use std::env;
use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

/// A task. It receives the arguments that follow its name.
type Task = fn(&[String]) -> anyhow::Result<()>;

/// Name, description and function of each task.
const TASKS: &[(&str, &str, Task)] = &[
    ("ci", "run all checks that a change must pass", ci::run),
    ("dependencies", "check licences, sources and versions of all crates", dependencies::run),
    (
        "devnet",
        "set up the local test chains; --light: only install anvil; --recompile: compile the contracts",
        devnet::run,
    ),
    (
        "fuzz",
        "send mutated input to the programs: --seed N; --from A --to B; --target NAME; --inputs N; --only N",
        fuzz::run,
    ),
    ("pictures", "draw the pictures of the console in docs/pictures", pictures::run),
    (
        "sim",
        "run simulated worlds: --seed N; --from A --to B; --days N; --payments: that edition; --table: coverage; --plants: planted bugs",
        sim::run,
    ),
    (
        "times",
        "run all tests; show how long each crate takes to compile and each program to run",
        times::run,
    ),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let mut arguments = env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        return std::io::stdout().write_all(usage().as_bytes()).context("cannot write to stdout");
    }
    match TASKS.iter().find(|(task, _, _)| *task == name) {
        Some((_, _, run)) => run(&rest),
        None => bail!("there is no task {name:?}\n{}", usage()),
    }
}

/// Returns a command of the cargo that runs this program.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

fn usage() -> String {
    let mut text = "usage: cargo xtask <task>\n".to_owned();
    for (name, about, _) in TASKS {
        text.push_str(&format!("  {name:<10} {about}\n"));
    }
    text
}
