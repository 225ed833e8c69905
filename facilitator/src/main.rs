//! `bursar-facilitator`: a thin main.

use std::process::ExitCode;
use std::sync::Arc;

use bursar_chain::points::NoPoints;

fn main() -> ExitCode {
    bursar_facilitator::program::main(Arc::new(NoPoints))
}
