//! The commands `wallet` and `seed`.

use bursar_core::ids::{Name, SeedId};
use clap::{Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WalletOrder {
    /// Create the encrypted wallet of this data folder and unlock it.
    Create { name: Name },
    /// Unlock the wallet.
    Open,
    /// Lock the wallet: keys are removed from memory, and nothing can be signed.
    Lock,
    /// Show whether there is a wallet and whether it is unlocked.
    Status,
    /// Change the password; the previous copy of the file is removed.
    Passwd,
    /// Write wallet, journal and settings into one encrypted file, which the wallet's password opens.
    Backup { file: String },
    /// Put the files of a backup into this data folder; what is there is moved aside. Needs a stopped engine.
    Restore { file: String },
    /// Adopt a wallet file, with its seeds and agents' secrets, into a journal that has no wallet.
    Recover { name: Name },
    /// Remove the wallet file with its seeds and agents' secrets; the journal stays. Needs the password.
    Delete {
        /// The name of the wallet, instead of typing it at the prompt.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
}

impl WalletOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            WalletOrder::Create { .. } => "wallet.create",
            WalletOrder::Open => "wallet.open",
            WalletOrder::Lock => "wallet.lock",
            WalletOrder::Status => "wallet.status",
            WalletOrder::Passwd => "wallet.passwd",
            WalletOrder::Backup { .. } => "wallet.backup",
            WalletOrder::Restore { .. } => "wallet.restore",
            WalletOrder::Recover { .. } => "wallet.recover",
            WalletOrder::Delete { .. } => "wallet.delete",
        }
    }
}

/// The length of a new seed phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum PhraseLength {
    #[value(name = "12")]
    Twelve,
    #[value(name = "24")]
    TwentyFour,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeedOrder {
    /// Generate a seed phrase and show it.
    Create {
        /// The number of words.
        #[arg(long, value_enum, default_value = "12")]
        words: PhraseLength,
    },
    /// Import an existing seed phrase, from a prompt, --seed-file or --seed-stdin.
    Import,
    /// The seeds of the wallet, without their words.
    List,
    /// Show the words of a seed again; needs the password.
    Words { seed: SeedId },
}

impl SeedOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            SeedOrder::Create { .. } => "seed.create",
            SeedOrder::Import => "seed.import",
            SeedOrder::List => "seed.list",
            SeedOrder::Words { .. } => "seed.words",
        }
    }
}
