//! `balances`.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::ids::Name;

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct BalancesOrder {
    /// Only this address.
    #[arg(long, value_name = "LABEL")]
    pub address: Option<Name>,
    /// Only this network, also if it is disabled; else all that are enabled.
    #[arg(long)]
    pub network: Option<String>,
}
