//! What holds for the whole process before anything else happens in it.

use bursar_engine::redact::Redacting;
use tracing_subscriber::EnvFilter;

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
    }
}

/// Elsewhere the folder's access list does it.
#[cfg(not(unix))]
pub(crate) fn close_to_others() {}

/// Log lines go to standard error, without anything that must not be read there: `BURSAR_LOG` chooses them, else `default` does.
pub(crate) fn log_to_stderr(default: &str) {
    let filter =
        EnvFilter::try_from_env("BURSAR_LOG").unwrap_or_else(|_unset| EnvFilter::new(default));
    let writer = || Redacting(std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).init();
}
