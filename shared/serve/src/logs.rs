//! Log lines of a service, on stderr. Logging is best effort: a line that cannot be written is dropped.

use tracing_subscriber::EnvFilter;

use crate::settings::RawSetting;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// Parses `text` or `json`.
    ///
    /// # Errors
    /// The accepted values, for [`Key::set`](crate::settings::Key).
    pub fn of(given: RawSetting<'_>) -> Result<Self, String> {
        match given.text()? {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _other => Err("it must be text or json".to_owned()),
        }
    }
}

/// Starts logging at the level that `RUST_LOG` sets, or at `info` if it is unset or invalid.
///
/// A second call panics.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_unset| EnvFilter::new("info"));
    // Otherwise the subscriber would report a failed write with `eprintln!`, which panics if stderr cannot be written.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => lines.with_ansi(false).init(),
        LogFormat::Json => lines.json().init(),
    }
}
