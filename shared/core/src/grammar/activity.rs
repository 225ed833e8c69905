//! `activity …` and `watch …`.

use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct ActivityOrder {
    /// Only entries before this one; the number stands in the first column.
    #[arg(long, value_name = "SEQ")]
    pub before: Option<u64>,
    /// How many [default: 20].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct WatchOrder {
    /// Begin with the entry after this one: the last that was seen [default: with what comes next].
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
}
