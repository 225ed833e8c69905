//! The command `status`.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct StatusOrder {
    /// Check one condition: print one line, and exit with 0 if it is true.
    #[arg(long, value_enum, value_name = "CONDITION")]
    #[serde(default)]
    pub check: Option<StatusCheck>,
    /// Print a few words for a status bar, also while no engine runs.
    #[arg(long, conflicts_with = "check")]
    #[serde(default)]
    pub tmux: bool,
}

/// A condition of the engine that a script or a health check can test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusCheck {
    /// Open and serving, the journal can be written, and a network answers; else 3, 4, 11, 13 or 15.
    Ready,
    /// The wallet is open; else 4, or 3 without an engine.
    Unlocked,
    /// No request is waiting; else 20, or 3 without an engine.
    Nopending,
}

impl StatusOrder {
    /// Returns whether only a running engine can answer.
    ///
    /// An engine that runs for this command alone is never ready, and takes long to start.
    pub fn needs_running_engine(&self) -> bool {
        self.check.is_some() || self.tmux
    }

    /// Returns whether the engine is to ask the networks.
    pub fn asks_networks(&self) -> bool {
        self.check == Some(StatusCheck::Ready)
    }
}
