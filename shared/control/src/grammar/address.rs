//! The `address` commands.

use bursar_core::ids::{Name, SeedId};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressOrder {
    /// Derive an address (m/44'/60'/0'/0/INDEX) and give it a label.
    Create {
        label: Name,
        index: u32,
        #[arg(default_value = "")]
        description: String,
        /// The seed, if the wallet has several: S001, S002, …
        #[arg(long)]
        seed: Option<SeedId>,
    },
    /// All addresses with their paths.
    List,
    /// Rename an address; agents that pay from it are not affected.
    Rename { label: Name, to: Name },
    /// Remove an address that no agent pays from; its money stays where it is.
    Delete { label: Name },
    /// Show the private key of an address; needs the password. Anyone with the key can take the money.
    Export { label: Name },
    /// The balance of one address; needs a running engine.
    Balance {
        label: Name,
        /// Only this network, even if it is disabled [default: all enabled networks].
        #[arg(long)]
        network: Option<String>,
    },
    /// Send coins or tokens from an address, after a confirmation; needs a running engine.
    Send(Box<SendOrder>),
    /// Recent sends, and those still in flight.
    Sends,
    /// Try to stop a send in flight by replacing it with an empty transaction.
    Cancel {
        /// The id of the send, or the beginning of it.
        id: String,
    },
}

/// `address send`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct SendOrder {
    /// The label of the address that pays.
    pub label: Name,
    /// The recipient: an address, or the label of another address of this wallet.
    pub to: String,
    /// The amount in coins or tokens, like 1.5.
    pub amount: String,
    /// A symbol or the address of a token contract [default: the network's native coin].
    #[arg(long)]
    pub token: Option<String>,
    /// The network [default: the only enabled one on which Bursar knows the token].
    #[arg(long)]
    pub network: Option<String>,
    /// Send without asking, unless the amount must be typed.
    #[arg(long)]
    pub yes: bool,
    /// The amount again, instead of typing it at the prompt.
    #[arg(long, value_name = "AMOUNT")]
    pub confirm: Option<String>,
    /// Do not wait until the transaction is in a block.
    #[arg(long)]
    pub no_wait: bool,
}

impl AddressOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            AddressOrder::Create { .. } => "address.create",
            AddressOrder::List => "address.list",
            AddressOrder::Rename { .. } => "address.rename",
            AddressOrder::Delete { .. } => "address.delete",
            AddressOrder::Export { .. } => "address.export",
            AddressOrder::Balance { .. } => "address.balance",
            AddressOrder::Send(_) => "address.send",
            AddressOrder::Sends => "address.sends",
            AddressOrder::Cancel { .. } => "address.cancel",
        }
    }
}
