//! The command `payee`.

use bursar_core::payee_label::PayeeLabel;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// `payee …`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayeeOrder {
    /// Name a payee: cards, lists and receipts show the name next to its address.
    ///
    /// A name never replaces an address, and no payment depends on it. It must not look like the name of another
    /// address. To change a name, forget it first.
    Name {
        address: String,
        /// Up to 60 printable characters.
        label: PayeeLabel,
        /// The network on which the address is paid [default: the only one on which it was paid].
        #[arg(long)]
        network: Option<String>,
    },
    /// The named payees.
    List,
    /// Forget the name of a payee. What was paid to it stays in the history.
    Forget {
        address: String,
        /// The network of the name [default: the only one on which the address has a name].
        #[arg(long)]
        network: Option<String>,
    },
}

impl PayeeOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Name { .. } => "payee.name",
            Self::List => "payee.list",
            Self::Forget { .. } => "payee.forget",
        }
    }
}
