//! The `bursar-facilitator` binary: calls [`bursar_facilitator::program`].

use std::process::ExitCode;
use std::sync::Arc;

use bursar_chain::failpoints::NoFailpoints;

fn main() -> ExitCode {
    bursar_facilitator::program::main(Arc::new(NoFailpoints))
}
