//! The commands `venues` and `positions`.

use bursar_core::ids::Name;
use clap::Args;
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
