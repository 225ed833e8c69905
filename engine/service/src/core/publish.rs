//! What everybody may read: published after each commit, never before.

use std::sync::Arc;

use bursar_core::settings::{LanBearer, Settings};
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
    /// network agreed with it, or the journal was restored then.
    pub fn refused_before(&self, moment: &Moment) -> Option<Utc> {
        let forgotten = Utc::from_seconds(i64::from(self.forgotten).saturating_mul(86_400));
        let first = self.state.restored.map_or(forgotten, |restored| restored.max(forgotten));
        (first > moment.utc).then_some(first)
    }

    /// After how many seconds without use the wallet locks. Also while the rest of the settings is anybody's word: the
    /// default would be never.
    pub fn idle_lock_s(&self) -> Option<u64> {
        self.state.settings.idle_lock_s
    }

    /// What tokens that travel over the network are met with; the stricter word while it is anybody's.
    pub fn lan_bearer(&self) -> LanBearer {
        self.state.settings.lan_bearer.max(self.settings().lan_bearer)
    }
}
