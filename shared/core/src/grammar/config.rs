//! `config …`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::settings::keys::Key;

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigOrder {
    /// One setting, and where its value comes from.
    Get {
        key: Key,
        /// Show whole URLs: their path and query may hold an API key.
        #[arg(long)]
        reveal: bool,
    },
    /// Change a setting; what can be changed while the engine runs is.
    Set {
        key: Key,
        /// The value, or `default`; a list in several words or with commas.
        #[arg(required = true)]
        value: Vec<String>,
    },
    /// Every setting, its value, and where that comes from.
    List,
}

impl ConfigOrder {
    pub fn name(&self) -> &'static str {
        match self {
            ConfigOrder::Get { .. } => "config.get",
            ConfigOrder::Set { .. } => "config.set",
            ConfigOrder::List => "config.list",
        }
    }
}
