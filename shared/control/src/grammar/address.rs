//! The `address` commands.

use bursar_core::codes::Code;
use bursar_core::derivation::{Layout, Template};
use bursar_core::fault::Fault;
use bursar_core::ids::{Name, SeedId};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressOrder {
    /// Derive an address (m/44'/60'/0'/0/INDEX) and give it a label.
    Create {
        label: Name,
        #[arg(value_parser = clap::value_parser!(u32).range(0..=2_147_483_647))]
        index: u32,
        #[arg(default_value = "")]
        description: String,
        /// The seed, if the wallet has several: S001, S002, …
        #[arg(long)]
        seed: Option<SeedId>,
    },
    /// All addresses with their paths.
    List,
    /// One address, and with --qr as a code that a wallet on a phone reads (EIP-681).
    Show {
        label: Name,
        /// Also draw the code.
        #[arg(long)]
        qr: bool,
        /// The amount to send there, in whole coins.
        #[arg(long, value_name = "AMOUNT", requires = "qr")]
        amount: Option<String>,
        /// What to send: a symbol that Bursar knows, or a token's address [default: the network's dollar token].
        #[arg(long, requires = "qr")]
        token: Option<String>,
        /// The network [default: Base].
        #[arg(long, requires = "qr")]
        network: Option<String>,
    },
    /// Addresses whose keys never leave a Ledger.
    #[command(subcommand)]
    Ledger(LedgerOrder),
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

/// The `address ledger` commands, for a Ledger that is plugged in and unlocked, with its Ethereum app open.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerOrder {
    /// Addresses of the Ledger that is plugged in; marks those of this wallet.
    List {
        #[command(flatten)]
        layout: LayoutArgs,
        /// The first index.
        #[arg(long, default_value_t = 0)]
        start: u32,
        /// How many, at most 50.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
        count: u32,
    },
    /// Add addresses of the Ledger to the wallet: one index, or several with commas.
    Add {
        /// One index, or several with commas: 0,1,2.
        #[arg(value_name = "INDEX", value_parser = indexes)]
        indexes: Indexes,
        /// The label; with several indexes, each index is appended [default: ledger-INDEX].
        label: Option<Name>,
        #[command(flatten)]
        layout: LayoutArgs,
    },
    /// Show an address on the Ledger, to compare it before you fund it; succeeds only if you confirm it there.
    Verify { label: Name },
}

/// Indexes of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Indexes(pub Vec<u32>);

fn indexes(text: &str) -> Result<Indexes, String> {
    let each = text.split(',').map(str::parse).collect::<Result<_, _>>();
    each.map(Indexes).map_err(|_number| "write one index, or several like 0,1,2".to_owned())
}

/// Where the addresses of a Ledger are.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct LayoutArgs {
    /// live (m/44'/60'/x'/0/0), bip44 (m/44'/60'/0'/0/x), legacy (m/44'/60'/0'/x) or custom.
    #[arg(long, default_value = "live", value_parser = layout)]
    pub layout: Layout,
    /// The path of the layout custom, with {} in place of the index.
    #[arg(long, value_name = "TEMPLATE", required_if_eq("layout", "custom"))]
    pub path: Option<String>,
}

fn layout(text: &str) -> Result<Layout, String> {
    text.parse().map_err(|_unknown| "the layouts are live, bip44, legacy and custom".to_owned())
}

impl LayoutArgs {
    /// Returns the template of the paths.
    ///
    /// # Errors
    /// The sentence for the operator: the path is missing, not a template, or given with another layout.
    pub fn template(&self) -> Result<Template, String> {
        match (self.layout.template(), &self.path) {
            (Some(template), None) => Ok(template),
            (None, Some(path)) => path.parse().map_err(|error| format!("--path: {error}.")),
            (None, None) => Err("The layout custom needs --path.".to_owned()),
            (Some(_template), Some(_path)) => {
                Err("--path needs the layout custom: add --layout custom.".to_owned())
            }
        }
    }
}

impl LedgerOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            LedgerOrder::List { .. } => "address.ledger.list",
            LedgerOrder::Add { .. } => "address.ledger.add",
            LedgerOrder::Verify { .. } => "address.ledger.verify",
        }
    }
}

/// `address send`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct SendOrder {
    /// The label of the address that pays.
    #[arg(required_unless_present = "faster")]
    pub label: Option<Name>,
    /// The recipient: an address, or the label of another address of this wallet.
    #[arg(required_unless_present = "faster")]
    pub to: Option<String>,
    /// The amount in coins or tokens, like 1.5.
    #[arg(required_unless_present = "faster")]
    pub amount: Option<String>,
    /// Instead of a new send: sign this open one again at a higher price, as `address sends` lists it.
    #[arg(long, value_name = "ID", conflicts_with_all = ["label", "to", "amount", "token", "network", "confirm"])]
    pub faster: Option<String>,
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

impl SendOrder {
    /// Returns the label of a new send.
    ///
    /// # Errors
    /// `BAD_INPUT` if the label is missing. The grammar requires it except with `--faster`.
    pub fn label(&self) -> Result<&Name, Fault> {
        self.label.as_ref().ok_or_else(|| missing("label"))
    }

    /// Returns the recipient of a new send.
    ///
    /// # Errors
    /// `BAD_INPUT` if it is missing.
    pub fn to(&self) -> Result<&str, Fault> {
        self.to.as_deref().ok_or_else(|| missing("recipient"))
    }

    /// Returns the amount of a new send.
    ///
    /// # Errors
    /// `BAD_INPUT` if it is missing.
    pub fn amount(&self) -> Result<&str, Fault> {
        self.amount.as_deref().ok_or_else(|| missing("amount"))
    }
}

fn missing(what: &str) -> Fault {
    Fault::because(Code::BadInput, format!("Name the {what} of the send."))
}

impl AddressOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            AddressOrder::Create { .. } => "address.create",
            AddressOrder::List => "address.list",
            AddressOrder::Show { .. } => "address.show",
            AddressOrder::Ledger(order) => order.name(),
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
