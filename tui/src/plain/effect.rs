//! What the loop does for the session.

use bursar_control::wire::{SecretPrompt, ToEngine};
use zeroize::Zeroizing;

use crate::link::Secret;

/// One step for the loop that drives the console.
#[derive(Debug)]
pub(super) enum Effect {
    /// Prints whole lines. They may contain a secret that a command returned.
    Print(Zeroizing<String>),
    /// Discards what was typed so far, because a question follows.
    DiscardInput,
    Send(ToEngine),
    SendSecret {
        id: u64,
        secret: Secret,
    },
    /// Asks for a secret without echo.
    AskSecret(SecretPrompt),
    /// Leaves the console with this exit code.
    Leave(u8),
}
