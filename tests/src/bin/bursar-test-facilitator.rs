//! The product's facilitator, which kills itself at the fault point that the test names. Never part of a release.

use std::process::ExitCode;
use std::sync::Arc;

use bursar_tests::kill::KillAtPoint;

fn main() -> ExitCode {
    bursar_facilitator::program::main(Arc::new(KillAtPoint::from_environment()))
}
