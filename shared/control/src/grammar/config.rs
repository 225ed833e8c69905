//! The `config` commands.

use bursar_core::settings::keys::Key;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigOrder {
    /// Show one setting, and where its value comes from.
    Get {
        key: Key,
        /// Show whole URLs: their path and query may hold an API key.
        #[arg(long)]
        reveal: bool,
    },
    /// Explain one setting, or all: its value, where that comes from, and what else could set it.
    Explain {
        key: Option<Key>,
        /// Show whole URLs: their path and query may hold an API key.
        #[arg(long)]
        reveal: bool,
    },
    /// Change a setting; it takes effect at once where possible.
    Set {
        key: Key,
        /// The value, or `default`; separate a list with spaces or commas.
        #[arg(required = true)]
        value: Vec<String>,
    },
    /// Every setting, its value, and where that comes from.
    List,
}

impl ConfigOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            ConfigOrder::Get { .. } => "config.get",
            ConfigOrder::Explain { .. } => "config.explain",
            ConfigOrder::Set { .. } => "config.set",
            ConfigOrder::List => "config.list",
        }
    }
}
