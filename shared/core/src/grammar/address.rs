//! `address …`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::ids::{Name, SeedId};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressOrder {
    /// Derive an address (m/44'/60'/0'/0/INDEX) and give it a label.
    Create {
        label: Name,
        index: u32,
        #[arg(default_value = "")]
        description: String,
        /// Which seed, when the wallet has several: S001 and on.
        #[arg(long)]
        seed: Option<SeedId>,
    },
    /// All addresses with their paths.
    List,
    /// Give an address another label; agents that pay from it go on.
    Rename { label: Name, to: Name },
    /// Forget an address that no agent pays from; its money stays where it is.
    Delete { label: Name },
    /// What one address holds; needs a running engine.
    Balance {
        label: Name,
        /// Only this network, also if it is disabled; else all that are enabled.
        #[arg(long)]
        network: Option<String>,
    },
}

impl AddressOrder {
    pub fn name(&self) -> &'static str {
        match self {
            AddressOrder::Create { .. } => "address.create",
            AddressOrder::List => "address.list",
            AddressOrder::Rename { .. } => "address.rename",
            AddressOrder::Delete { .. } => "address.delete",
            AddressOrder::Balance { .. } => "address.balance",
        }
    }
}
