//! A service as a process, from start to exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use bursar_core::fault::MESSAGE_CHARS_MAX;
use bursar_core::text::{excerpt, snippet};
use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use tokio::runtime::{Builder, Runtime};

use crate::{panics, signals};

/// Runs the program `name`, and returns its exit code.
///
/// It prints an error to stderr and returns the error's exit code.
pub fn main<E: Display>(
    name: &'static str,
    run: impl FnOnce() -> Result<ExitCode, E>,
    exit_of: impl FnOnce(&E) -> ExitCode,
) -> ExitCode {
    panics::install(name);
    signals::outlive_file_size_limit();
    // Files of a service contain data of its callers: no other user may read them.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    raise_file_limit();
    run().unwrap_or_else(|fault| {
        // A path or a text from a damaged store may be long, or contain control characters that would move the cursor.
        let fault_text = excerpt(&fault.to_string(), MESSAGE_CHARS_MAX);
        let _unwritable = writeln!(io::stderr(), "{name}: {fault_text}");
        exit_of(&fault)
    })
}

/// Parses the command line.
///
/// On an error, and for `--help`, it prints the text and exits.
pub fn arguments<A: Parser>() -> A {
    A::try_parse().unwrap_or_else(|mut error| {
        shorten(&mut error);
        error.exit()
    })
}

/// Cuts and escapes the arguments that an error repeats.
fn shorten(error: &mut clap::Error) {
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue]
    {
        let Some(ContextValue::String(whole)) = error.get(kind) else { continue };
        let cut = snippet(whole);
        if cut != *whole {
            error.insert(kind, ContextValue::String(cut));
            // clap's tip repeats the argument as well.
            error.remove(ContextKind::Suggested);
        }
    }
}

/// Builds the tokio runtime.
///
/// `blocking_threads` limits the threads for blocking work such as disk access.
///
/// # Errors
/// [`RuntimeBuildError`] if the process cannot start threads.
pub fn runtime(blocking_threads: usize) -> Result<Runtime, RuntimeBuildError> {
    let mut builder = Builder::new_multi_thread();
    builder.max_blocking_threads(blocking_threads).enable_all().build().map_err(RuntimeBuildError)
}

/// The default limit of blocking threads.
pub const BLOCKING_THREADS: usize = 512;

/// The runtime could not be built.
#[derive(Debug, thiserror::Error)]
#[error("the process cannot start threads: raise its limit (ulimit -u, TasksMax)")]
pub struct RuntimeBuildError(#[source] io::Error);

/// Raises the soft limit of open files to the hard limit, because each connection is a file.
///
/// If that fails, the old limit remains, and [`file_limit`] returns it.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _kept = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Returns how many files this process may open.
pub fn file_limit() -> u64 {
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Other platforms do not count sockets as files.
    #[cfg(not(unix))]
    let limit = None;
    limit.unwrap_or(u64::MAX)
}

/// Prints the line `READY http://<address>` for the parent process.
///
/// It ignores write errors, because the parent process may have ended.
pub fn print_ready(address: SocketAddr) {
    let mut out = io::stdout();
    let _reader_gone = writeln!(out, "READY http://{address}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Arguments {
        #[arg(long)]
        number: Option<u8>,
        /// For an unknown option, this argument makes clap add a tip how to pass the text as a value.
        count: Option<u8>,
    }

    #[test]
    fn errors_of_the_command_line_are_short_and_on_our_lines() {
        let long = "a\u{1b}[31m\u{7}".repeat(20_000);
        for line in
            [vec!["x", "--number", &long], vec!["x", &long], vec!["x", &format!("--{long}")]]
        {
            let mut error = Arguments::try_parse_from(&line).unwrap_err();
            shorten(&mut error);
            let text = error.render().to_string();
            assert!(text.len() < 5_000 && text.contains('…'), "{} bytes", text.len());
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
        }
    }
}
