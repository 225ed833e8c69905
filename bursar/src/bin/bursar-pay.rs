//! `bursar-pay`, the program of the payments-only edition.

use std::process::ExitCode;

use bursar_core::edition::EditionName;
use bursar_engine::control::ControlChannel;

fn main() -> ExitCode {
    bursar_programs::run_program(EditionName::Payments, Some(ControlChannel::SOCKET))
}
