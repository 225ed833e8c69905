//! The published view: replaced after each step. It shows no decision before its commit.

use std::sync::Arc;

use bursar_core::settings::{LanBearer, Settings};
use bursar_core::time::{Moment, Utc};
use bursar_domain::State;

use crate::journal::Head;

/// The state as of the last commit.
#[derive(Debug, Clone)]
pub struct View {
    /// The state without authorizations, which only the core and the records have.
    pub state: State,
    /// The value of [`State::burst_lapses_at`], which the published state cannot compute.
    pub burst_lapses_at: Option<u64>,
    /// The number of authorizations in the core's state.
    pub authorized: usize,
    /// The newest entry on disk.
    pub head: Head,
    /// Why every payment needs approval: the journal did not match the wallet at unlock.
    pub untrusted_reason: Option<String>,
    /// Whether the last unlock verified the journal, or the operator accepted it.
    ///
    /// Before that, any process that can write the folder may have written the entries.
    pub is_verified: bool,
    /// Why the core stopped deciding; `None` while it decides.
    pub failure: Option<String>,
    /// The day (since 1970) before which signed asks are forgotten.
    ///
    /// Asks of forgotten days are refused.
    pub forgotten_before_day: u32,
}

impl View {
    /// Returns the settings in force: the defaults until the journal was verified or accepted.
    ///
    /// Before that, any program that can write the folder may have appended entries.
    pub fn settings(&self) -> Arc<Settings> {
        if self.is_verified { Arc::clone(&self.state.settings) } else { Arc::default() }
    }

    /// Returns the time before which signed requests are refused, if it lies in the future.
    ///
    /// Causes: a clock was ahead and a network agreed with it, or the journal was restored while the clock was ahead.
    pub fn refused_before(&self, moment: &Moment) -> Option<Utc> {
        let forgotten =
            Utc::from_seconds(i64::from(self.forgotten_before_day).saturating_mul(86_400));
        let first = self.state.restored.map_or(forgotten, |restored| restored.max(forgotten));
        (first > moment.utc).then_some(first)
    }

    /// Returns the idle seconds after which the wallet locks.
    ///
    /// The recorded value also applies before the journal is verified, because the default is never to lock.
    pub fn idle_lock_s(&self) -> Option<u64> {
        self.state.settings.idle_lock_s
    }

    /// Returns how bearer tokens from the network are treated.
    ///
    /// Before the journal is verified, the stricter of the recorded setting and the default applies.
    pub fn lan_bearer(&self) -> LanBearer {
        self.state.settings.lan_bearer.max(self.settings().lan_bearer)
    }
}
