//! `bursar-desk`, the program of the desktop edition. Nothing outside the process can drive it: it has no control channel.

use std::process::ExitCode;

use bursar_core::edition::EditionName;

fn main() -> ExitCode {
    bursar_programs::run_program(EditionName::Desktop, None)
}
