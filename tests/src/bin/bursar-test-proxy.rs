//! The product's proxy, which ends itself at a named point of the test's choice. Never part of a release.

use std::process::ExitCode;
use std::sync::Arc;

use bursar_tests::kill::Kill;

fn main() -> ExitCode {
    bursar_proxy::program::main(Arc::new(Kill::from_environment()))
}
