//! The commands `requests`, `approve` and `deny`: one queue for every lane.

use bursar_core::money::Usd;
use clap::Args;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct RequestsOrder {
    /// Also show the latest decided requests.
    #[arg(long)]
    pub all: bool,
    /// First ask a Ledger again that is left alone, because it refused a request for a switch of its settings.
    #[arg(long)]
    #[serde(default)]
    pub retry: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Approve {
    /// The request's id, or the beginning of it.
    pub id: String,
    /// The digest in the card's row `card`: if the terms have changed since, the command fails.
    #[arg(long, value_name = "DIGEST")]
    pub card: Option<String>,
    /// Approve without asking; a large amount still needs --confirm.
    #[arg(long)]
    pub yes: bool,
    /// The amount in dollars, for a payment whose amount must be typed.
    #[arg(long, value_name = "AMOUNT", value_parser = Usd::parse)]
    pub confirm: Option<Usd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Deny {
    /// The request's id, or the beginning of it.
    pub id: String,
    /// The reason, which is shown to the agent.
    pub reason: Vec<String>,
}
