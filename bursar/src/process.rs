//! What holds for the whole process before anything else happens in it.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;

use bursar_engine::redact::Redacting;
use tracing_subscriber::EnvFilter;

/// What chooses log lines.
const CHOICE: &str = "BURSAR_LOG";
/// In the data folder: the log lines of a console.
const CONSOLE_LOG: &str = "console.log";

/// New files and folders are the user's alone, and no core dump or debugger of the same user gets at the
/// keys by default. Each is a precaution: where the platform refuses one, the rest still holds.
#[cfg(unix)]
pub(crate) fn close_to_others() {
    use rustix::fs::Mode;
    use rustix::process::{Resource, Rlimit, setrlimit, umask};

    umask(Mode::RWXG | Mode::RWXO);
    let _kept = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _kept = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        // Nothing that this program starts may become more than it is.
        let _kept = rustix::thread::set_no_new_privs(true);
    }
}

/// Lets an engine have as many files open as its server may have connections. To be called once the log can
/// say that it was not possible.
#[cfg(unix)]
pub(crate) fn allow_open_files() {
    use bursar_core::limits::OPEN_FILES;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= OPEN_FILES) {
        return;
    }
    let wanted = maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    if raised.is_err() || wanted < OPEN_FILES {
        tracing::warn!(
            needed = OPEN_FILES,
            "the limit of open files is too low for all connections: raise it (ulimit -n, LimitNOFILE)"
        );
    }
}

/// Elsewhere sockets are not counted among files.
#[cfg(not(unix))]
pub(crate) fn allow_open_files() {}

/// Elsewhere the folder's access list does it.
#[cfg(not(unix))]
pub(crate) fn close_to_others() {}

/// Log lines go to standard error, without anything that must not be read there: `BURSAR_LOG` chooses them, else `default` does.
pub(crate) fn log_to_stderr(default: &str) {
    let filter = EnvFilter::try_from_env(CHOICE).unwrap_or_else(|_unset| EnvFilter::new(default));
    let writer = || Redacting(std::io::stderr());
    // A session over a pipe comes here with each of its commands.
    let _set_already =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).try_init();
}

/// The log of a console, of which nothing may reach the terminal that it draws on: it goes to a file in the
/// data folder, unless standard error is led elsewhere. Answers what is to be said of it once the terminal is
/// given back; nothing, unless somebody asked for a log.
pub(crate) fn log_of_console(folder: &Path) -> Option<String> {
    std::env::var_os(CHOICE).filter(|choice| !choice.is_empty())?;
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
    let filter = EnvFilter::try_from_env(CHOICE).unwrap_or_else(|_wrong| EnvFilter::new("off"));
    let writer = move || Redacting(Arc::clone(&file));
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(writer).init();
    Ok(())
}

#[cfg(unix)]
fn open_for_its_owner(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn open_for_its_owner(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
