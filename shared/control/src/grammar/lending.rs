//! The commands `venues`, `venue`, `positions` and `position`.

use bursar_core::ids::Name;
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

/// `venues`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct VenuesOrder {
    /// Only this network [default: all enabled networks with Morpho].
    #[arg(long)]
    pub network: Option<String>,
}

/// `positions`.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct PositionsOrder {
    /// Only this address.
    #[arg(long, value_name = "LABEL")]
    pub address: Option<Name>,
    /// Only this network [default: all enabled networks with Morpho].
    #[arg(long)]
    pub network: Option<String>,
}

/// `venue …`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VenueOrder {
    /// Let agents use a new venue, as long as it keeps its curator and its owner.
    ///
    /// Only for venues that `venues` shows as not confirmed: their curator is trusted, but their owner is not, or could
    /// name any curator. Policies with `--no-restrict` need no confirmation.
    Trust {
        #[command(flatten)]
        venue: VenueName,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Take the trust in a venue back. Money that is there can still be withdrawn.
    Untrust {
        #[command(flatten)]
        venue: VenueName,
    },
}

impl VenueOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Trust { .. } => "venue.trust",
            Self::Untrust { .. } => "venue.untrust",
        }
    }
}

/// A venue on a network.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct VenueName {
    /// The address of a vault, or the id of a market.
    pub venue: String,
    /// The network [default: the only enabled one with Morpho].
    #[arg(long)]
    pub network: Option<String>,
}

/// `position …`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PositionOrder {
    /// Take lent money back, also while agents are frozen. No policy limit applies.
    ///
    /// A Vault V2 pays out its free money alone. With `--force-deallocate` it also takes money back from the adapters
    /// that have lent it, for a penalty of at most 2 % that stays in the vault. The price is shown before you confirm.
    Withdraw {
        #[command(flatten)]
        venue: VenueName,
        /// The amount in whole coins, like 25.5, or all.
        amount: String,
        /// The address that has the position [default: the only address].
        #[arg(long, value_name = "LABEL")]
        address: Option<Name>,
        /// Also take back what a Vault V2 has lent out, for a penalty.
        #[arg(long)]
        #[serde(default)]
        force_deallocate: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Book a loss: the ceiling of deposits then counts only what the venue pays now.
    ///
    /// What was supplied and not withdrawn counts against the ceiling, also if a node reports that nothing is there. If
    /// the money is really lost, this takes it off.
    WriteOff {
        #[command(flatten)]
        venue: VenueName,
        /// The address that has the position [default: the only address].
        #[arg(long, value_name = "LABEL")]
        address: Option<Name>,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

impl PositionOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Withdraw { .. } => "position.withdraw",
            Self::WriteOff { .. } => "position.write-off",
        }
    }
}
