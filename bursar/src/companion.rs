//! Starts the programs that ship beside this one. They are programs of their own because none of their
//! code belongs into a wallet.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use crate::cli::Global;

/// `bursar demo`: becomes `bursar-demo`, and gives back its exit code.
pub(crate) fn demo(global: &Global, arguments: &[OsString]) -> u8 {
    let program = beside_this("bursar-demo");
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
            crate::failed("demo", global, Fault::because(Code::NothingFound, message))
        }
        Err(error) => {
            let message = format!("{} cannot be started: {error}.", program.display());
            crate::failed("demo", global, Fault::because(Code::InternalError, message))
        }
    }
}

/// The program beside this one, else the bare name, which is looked for on PATH.
fn beside_this(name: &str) -> PathBuf {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    match std::env::current_exe() {
        Ok(this) if this.with_file_name(&file).is_file() => this.with_file_name(&file),
        _elsewhere => PathBuf::from(file),
    }
}

/// Takes this process's place, so that signals and the terminal are the other program's alone; returns
/// only if that fails.
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
