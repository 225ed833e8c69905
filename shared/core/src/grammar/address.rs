//! `address …`.

use clap::{Args, Subcommand};
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
    /// Move coins or tokens away from an address; needs a running engine and always asks.
    Send(Box<SendOrder>),
    /// What was sent lately, and what is still on its way.
    Sends,
    /// Try to stop a send that is still on its way: a transaction that does nothing takes its place.
    Cancel {
        /// The id of the send, or enough of its beginning.
        id: String,
    },
}

/// `address send`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct SendOrder {
    /// The label of the address that pays.
    pub label: Name,
    /// Where it goes: an address, or the label of another one of this wallet.
    pub to: String,
    /// In whole coins, like 1.5.
    pub amount: String,
    /// A symbol, or the address of a token contract; else the network's native coin.
    #[arg(long)]
    pub token: Option<String>,
    /// Needed where several enabled networks have the token.
    #[arg(long)]
    pub network: Option<String>,
    /// Send without being asked for a yes.
    #[arg(long)]
    pub yes: bool,
    /// The amount once more, where it must be typed and nobody can be asked.
    #[arg(long, value_name = "AMOUNT")]
    pub confirm: Option<String>,
    /// Do not wait until it is in a block.
    #[arg(long)]
    pub no_wait: bool,
}

impl AddressOrder {
    pub fn name(&self) -> &'static str {
        match self {
            AddressOrder::Create { .. } => "address.create",
            AddressOrder::List => "address.list",
            AddressOrder::Rename { .. } => "address.rename",
            AddressOrder::Delete { .. } => "address.delete",
            AddressOrder::Balance { .. } => "address.balance",
            AddressOrder::Send(_) => "address.send",
            AddressOrder::Sends => "address.sends",
            AddressOrder::Cancel { .. } => "address.cancel",
        }
    }
}
