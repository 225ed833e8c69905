//! Sends mutated input to the real programs, and checks the guarantees that they give for any input.
//!
//! `bursar-fuzz [--seed N | --from A --to B] [--target NAME]... [--inputs N] [--only N] [--known] [--programs DIR]`
//!
//! Each input depends only on the seed, the target and its number. Without arguments, all targets run with seed 1.
//! `--known` also prints the violations of the list in `known.rs`.

mod arguments;
mod draw;
mod http;
mod json;
mod known;
mod oracle;
mod process;
mod programs;
mod report;
mod run;
mod scene;
mod stub;
mod targets;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("bursar-fuzz: {why}");
            return ExitCode::from(2);
        }
    };
    let report = run::run_all(&arguments);
    print!("{}", report.table());
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
