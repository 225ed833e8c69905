//! What everybody may read: published after each commit, never before.

use std::sync::Arc;

use bursar_core::settings::Settings;
use bursar_core::time::{Moment, Utc};
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

impl View {
    /// The settings in force, once the journal was judged: any program that can write the folder can write an entry, and
    /// the wallet's key alone shows that it was not ours.
    pub fn settings(&self) -> Arc<Settings> {
        if self.judged { Arc::clone(&self.state.settings) } else { Arc::default() }
    }

    /// The time before which signed requests are refused, if it lies in the future: a clock showed a later time, and a
    /// network agreed with it.
    pub fn refused_before(&self, moment: &Moment) -> Option<Utc> {
        let first = Utc::from_seconds(i64::from(self.forgotten).saturating_mul(86_400));
        (first > moment.utc).then_some(first)
    }
}
