//! Commands of the product's own program, attached to a running engine, compared with `bursar --version`.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::wallet::Running;

const COMMAND_RUNS: usize = 40;

pub fn measure(few: &Running, many: &Running) {
    let program = program();
    let version = times(
        || {
            let mut command = Command::new(&program);
            command.arg("--version");
            command
        },
        "--version",
    );
    println!("bursar --version: {:.1} ms", version.as_secs_f64() * 1e3);
    for line in ["status", "agent list", "activity", "requests --all"] {
        for (name, running) in [("one payment", few), ("many payments", many)] {
            let took = times(
                || {
                    let mut command = Command::new(&program);
                    command.arg("--data").arg(&running.engine.folder).args(line.split(' '));
                    command
                },
                line,
            );
            println!("bursar {line:<14} {name:<14} {:>6.1} ms", took.as_secs_f64() * 1e3);
        }
    }
}

/// Returns the median duration of a command.
fn times(command: impl Fn() -> Command, line: &str) -> Duration {
    let mut took: Vec<Duration> = (0..COMMAND_RUNS)
        .map(|_turn| {
            let begun = Instant::now();
            let status = command().stdout(Stdio::null()).status().expect("it starts");
            assert!(status.success(), "bursar {line}: {status}");
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[COMMAND_RUNS / 2]
}

/// Builds the program in this bench's profile, and returns its path. It belongs to another
/// package, so cargo has to build it.
fn program() -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--quiet", "--package", "bursar"])
        .status();
    assert!(built.expect("cargo runs").success());
    let bench = std::env::current_exe().expect("a bench");
    bench.parent().and_then(|deps| deps.parent()).expect("target/release/deps").join("bursar")
}
