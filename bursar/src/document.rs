//! Documents that a command checks without an engine, a data folder or a network.

use std::fs::File;
use std::io::{self, Read};

use bursar_control::answers::Answer;
use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text;
use bursar_tui::oneshot;

use crate::cli::GlobalOptions;

/// Reads a file, or standard input for `-`: at most one byte more than `bytes_max`.
///
/// # Errors
/// `BAD_INPUT` if it cannot be read.
pub(crate) fn read(file: &str, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    contents(file, bytes_max).map_err(|error| {
        let message = format!("{} cannot be read: {error}.", text::snippet(file));
        Fault::because(Code::BadInput, message)
    })
}

fn contents(file: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
    let most = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    match file {
        "-" => io::stdin().lock().take(most).read_to_end(&mut bytes)?,
        path => File::open(path)?.take(most).read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}

/// Prints the result of a check, and returns the exit code.
pub(crate) fn report(command: &str, global: &GlobalOptions, checked: Result<Answer, Fault>) -> u8 {
    match checked {
        Ok(answer) => {
            let (mut out, mut err) = (io::stdout(), io::stderr());
            let options = global.options();
            oneshot::finish_without_engine(command, answer, &options, &mut out, &mut err)
        }
        Err(fault) => crate::failure::report_failure(command, global, fault),
    }
}
