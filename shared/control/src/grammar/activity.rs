//! The commands `activity` and `watch`.

use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct ActivityOrder {
    /// Only entries before this number, which the first column shows; requests are in the state of that time.
    #[arg(long, value_name = "SEQ")]
    pub before: Option<u64>,
    /// The number of rows [default: 20].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Show every entry of the journal: also the former states of requests, and the unlock and lock around a command
    /// that ran without an engine.
    #[arg(long)]
    #[serde(default)]
    pub raw: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct WatchOrder {
    /// Start after this entry, for example the last one you saw [default: only new entries].
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
}
