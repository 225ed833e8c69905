//! Ends a command that needed no engine, with its result or with a failure of the program itself.

use std::io::{self, Write};

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_tui::oneshot;
use serde_json::Value;

use crate::cli::GlobalOptions;

/// Reports a failure that happened outside an engine, and returns its exit code.
pub(crate) fn report_failure(
    command: &str,
    global: &GlobalOptions,
    failure: impl Into<oneshot::Failure>,
) -> u8 {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    oneshot::fail(Some(command), failure, &global.options(), &mut out, &mut err)
}

/// Returns a fault of the journal with the way out of a program whose commands are all in its window.
pub(crate) fn in_another_folder(code: Code, why: &str) -> Fault {
    let why = why.trim_end_matches('.');
    let message = format!(
        "{why}. The window needs a journal, so restore a backup in another folder: start with `--data <new folder>`, \
         copy the backup into the folder `exports` there, and run `wallet restore <name>` in the window."
    );
    Fault::because(code, message)
}

/// Prints the result of a command: `data` with `--json`, otherwise `text`. Returns the exit code.
pub(crate) fn print_result(command: &str, global: &GlobalOptions, data: &Value, text: &[u8]) -> u8 {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    if let Some(version) = global.json {
        return oneshot::succeed(version, command, data, &mut out, &mut err);
    }
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => 0,
        // The reader, for example `head`, needs no more.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            let fault = Fault::because(Code::InternalError, "The result could not be written.");
            report_failure(command, global, fault.with_detail(error))
        }
    }
}
