//! The bottom line: the result of the last action, shown for a limited time.

/// One line about the last action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) failed: bool,
    pub(crate) at_ms: u64,
    /// When the line disappears.
    pub(super) expires_at_ms: u64,
}

/// Maximum time between the two presses of the freeze key.
pub(crate) const FREEZE_WINDOW_MS: u64 = 2_000;
