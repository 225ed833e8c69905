//! A service as a process: what surrounds its work from the start to the exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

/// Runs a program of that name, and says on stderr why it could not.
pub fn main<E: Display>(name: &str, run: impl FnOnce() -> Result<ExitCode, E>) -> ExitCode {
    // What is kept holds what callers sent, and is nobody else's.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    raise_file_limit();
    run().unwrap_or_else(|fault| {
        let _unwritable = writeln!(io::stderr(), "{name}: {fault}");
        ExitCode::FAILURE
    })
}

/// Threads to work on, and so many that wait for the disk.
///
/// # Errors
/// The process cannot have threads.
pub fn runtime(blocking_threads: usize) -> Result<Runtime, NoThreads> {
    let mut builder = Builder::new_multi_thread();
    builder.max_blocking_threads(blocking_threads).enable_all().build().map_err(NoThreads)
}

/// How many threads may wait for the disk where nothing else is said.
pub const BLOCKING_THREADS: usize = 512;

#[derive(Debug, thiserror::Error)]
#[error("the process cannot start threads")]
pub struct NoThreads(#[source] io::Error);

/// Raises the soft limit of open files to the hard limit: each connection is a file.
///
/// A limit that cannot be raised still holds, and [`file_limit`] returns it.
fn raise_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _kept = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// How many files this process may open.
pub fn file_limit() -> u64 {
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // Elsewhere sockets are not counted among files.
    #[cfg(not(unix))]
    let limit = None;
    limit.unwrap_or(u64::MAX)
}

/// Tells whoever started it where it listens.
///
/// # Errors
/// Nobody can be told.
pub fn ready(address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "READY http://{address}")?;
    out.flush()
}
