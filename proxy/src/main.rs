//! The `bursar-proxy` program.

use std::process::ExitCode;
use std::sync::Arc;

use bursar_chain::failpoints::NoFailpoints;

fn main() -> ExitCode {
    bursar_proxy::program::main(Arc::new(NoFailpoints))
}
