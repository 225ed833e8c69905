//! Errors of command lines.

use bursar_core::text::snippet;
use clap::error::{ContextKind, ContextValue};

/// The line is not a valid command.
///
/// Contains clap's message, without colour.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LineError(pub String);

/// Cuts and escapes the parts of the command line that an error repeats.
pub fn shorten(error: &mut clap::Error) {
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue]
    {
        let Some(ContextValue::String(whole)) = error.get(kind) else { continue };
        let cut = snippet(whole);
        if cut != *whole {
            error.insert(kind, ContextValue::String(cut));
            // The tip repeats the argument as well.
            error.remove(ContextKind::Suggested);
        }
    }
}
