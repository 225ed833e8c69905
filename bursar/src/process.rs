//! Settings of the whole process: file permissions, core dumps, open files and logging.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use bursar_engine::redact::RedactingWriter;
use tracing_subscriber::EnvFilter;

/// The environment variable that selects log lines.
const LOG_VARIABLE: &str = "BURSAR_LOG";
/// The file in the data folder for a console's log lines.
const CONSOLE_LOG: &str = "console.log";

/// Makes new files private, and keeps the keys out of core dumps.
///
/// On Linux and Android, other processes of the same user cannot attach a debugger either. If the platform refuses
/// one step, the others still apply.
#[cfg(unix)]
pub(crate) fn restrict_access() {
    use rustix::fs::Mode;
    use rustix::process::{Resource, Rlimit, setrlimit, umask};

    umask(Mode::RWXG | Mode::RWXO);
    let _kept = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _kept = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        // Programs that this process starts cannot gain privileges.
        let _kept = rustix::thread::set_no_new_privs(true);
    }
}

/// Raises the limit of open files to the number that the server's connections need.
///
/// Call it after logging is set up, so that a failure is logged.
#[cfg(unix)]
pub(crate) fn allow_open_files() {
    use bursar_core::limits::OPEN_FILES_NEEDED;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= OPEN_FILES_NEEDED) {
        return;
    }
    let wanted = maximum.map_or(OPEN_FILES_NEEDED, |most| most.min(OPEN_FILES_NEEDED));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    if raised.is_err() || wanted < OPEN_FILES_NEEDED {
        tracing::warn!(
            needed = OPEN_FILES_NEEDED,
            "the limit of open files is too low for all connections: raise it (ulimit -n, LimitNOFILE)"
        );
    }
}

/// Does nothing: on other platforms the limit of open files does not include sockets.
#[cfg(not(unix))]
pub(crate) fn allow_open_files() {}

/// Does nothing: on other platforms the data folder's access list protects it.
#[cfg(not(unix))]
pub(crate) fn restrict_access() {}

/// Writes log lines to standard error, with secrets redacted.
///
/// `BURSAR_LOG` selects the lines, or else `default`. A line that cannot be written is dropped.
pub(crate) fn log_to_stderr(default: &str) {
    let filter =
        EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_unset| EnvFilter::new(default));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| RedactingWriter(std::io::stderr()))
        // Otherwise the subscriber would report a failed write with `eprintln!`, whose panic would end the process.
        .log_internal_errors(false);
    // In a piped session this runs for each command, and only the first call has an effect.
    let _set_already = lines.try_init();
}

/// Sets up the log of a console so that it does not write over the screen.
///
/// The log goes to a file in the data folder, or to standard error if that is redirected. Returns the line to print
/// once the terminal is restored; `None` if no log was requested or standard error is redirected.
pub(crate) fn console_log(folder: &Path) -> Option<String> {
    std::env::var_os(LOG_VARIABLE).filter(|choice| !choice.is_empty())?;
    if !io::stderr().is_terminal() {
        log_to_stderr("off");
        return None;
    }
    let path = folder.join(CONSOLE_LOG);
    Some(match log_to_file(&path) {
        Ok(()) => format!("Log lines are in {}.", path.display()),
        Err(error) => {
            format!("There is no log, because {} cannot be written: {error}.", path.display())
        }
    })
}

fn log_to_file(path: &Path) -> io::Result<()> {
    let file: Arc<File> = Arc::new(open_for_its_owner(path)?);
    let filter =
        EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_wrong| EnvFilter::new("off"));
    let writer = move || RedactingWriter(Arc::clone(&file));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    lines.with_ansi(false).log_internal_errors(false).init();
    Ok(())
}

#[cfg(unix)]
fn open_for_its_owner(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // Non-blocking, so that a pipe without a reader cannot block the start.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open_for_its_owner(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
