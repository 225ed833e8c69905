//! The arguments of a sealed program: they choose the folder and the look of its window, and drive nothing.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use super::color::Color;

/// A self-custodial wallet that pays for AI agents, in one window that nothing outside can drive.
#[derive(Debug, Parser)]
#[command(version = bursar_tui::VERSION, max_term_width = 100)]
#[command(after_help = "Commands are typed in the window, after `:`.")]
pub(super) struct Arguments {
    /// The data folder [default: next to this program].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// When to use colours; `auto` respects NO_COLOR.
    #[arg(long, value_enum, default_value_t)]
    pub(super) color: Color,
    /// Draw with ASCII only; the default where the locale is not UTF-8.
    #[arg(long)]
    pub(super) ascii: bool,
}

/// Parses the arguments.
///
/// # Errors
/// clap's message; the output of `--help` and `--version` is also returned as an error.
pub(super) fn read(
    program: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command().name(program).bin_name(program);
    let matches = command.try_get_matches_from_mut(arguments).map_err(|error| match error.kind() {
        ErrorKind::UnknownArgument => command.error(
            ErrorKind::UnknownArgument,
            format!("{program} takes no commands and no such options: type a command in its window, after `:`"),
        ),
        _other => error,
    })?;
    Arguments::from_arg_matches(&matches)
}
