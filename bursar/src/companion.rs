//! Starts `bursar-demo`, which ships next to this program. It is a separate program because none of its code belongs
//! in a wallet.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::cli::GlobalOptions;

/// Runs `bursar-demo` for `bursar demo` and returns its exit code.
pub(crate) fn demo(global: &GlobalOptions, arguments: &[OsString]) -> u8 {
    let program = sibling_program("bursar-demo");
    let mut command = Command::new(&program);
    command.args(arguments);
    if global.yes {
        command.arg("--yes");
    }
    match exit_of(command) {
        Ok(exit) => exit,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message = "The demo is a separate program, `bursar-demo`, which is not installed: run \
                 `cargo install --path demo`, or `cargo run --release -p bursar-demo` in the source folder.";
            crate::failure::report_failure(
                "demo",
                global,
                Fault::because(Code::NothingFound, message),
            )
        }
        Err(error) => {
            let message = format!("{} cannot be started: {error}.", program.display());
            crate::failure::report_failure(
                "demo",
                global,
                Fault::because(Code::InternalError, message),
            )
        }
    }
}

/// Returns the path of the program next to this one.
///
/// If it is missing there, returns the bare name, which the system looks up on PATH.
fn sibling_program(name: &str) -> PathBuf {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    match std::env::current_exe() {
        Ok(this) if this.with_file_name(&file).is_file() => this.with_file_name(&file),
        _elsewhere => PathBuf::from(file),
    }
}

/// Replaces this process by the other program; returns only on failure.
///
/// Signals and the terminal then belong only to the other program.
#[cfg(unix)]
fn exit_of(mut command: Command) -> io::Result<u8> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn exit_of(mut command: Command) -> io::Result<u8> {
    let code = command.status()?.code();
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
