//! Reports a failure of the program itself.

use std::io;

use bursar_tui::oneshot;

use crate::cli::Global;

/// Reports a failure outside any engine, and returns its exit code.
pub(crate) fn failed(command: &str, global: &Global, failure: impl Into<oneshot::Failure>) -> u8 {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    oneshot::fail(Some(command), failure, &global.options(), &mut out, &mut err)
}
