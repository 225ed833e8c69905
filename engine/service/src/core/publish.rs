//! What everybody may read: published after each commit, never before.

use bursar_domain::State;

use crate::journal::Head;

/// The state as of the last commit.
#[derive(Debug, Clone)]
pub struct View {
    /// Without the authorizations: those are asked of the core or of the records.
    pub state: State,
    /// The newest entry on disk.
    pub head: Head,
    /// Why every payment asks, if the journal did not fit the wallet at unlock.
    pub untrusted: Option<String>,
    /// The journal was found to fit since the engine started: before that it is anybody's word.
    pub judged: bool,
    /// Why nothing is decided any more.
    pub failed: Option<String>,
    /// The day before which signed asks are forgotten and refused.
    pub forgotten: u32,
}
