//! The command `balances`.

use bursar_core::ids::Name;
use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct BalancesOrder {
    /// Only this address.
    #[arg(long, value_name = "LABEL")]
    pub address: Option<Name>,
    /// Only this network, even if it is disabled [default: all enabled networks].
    #[arg(long)]
    pub network: Option<String>,
}
