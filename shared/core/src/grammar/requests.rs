//! `requests`, `approve`, `deny`: one queue for every lane.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::money::Usd;

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct RequestsOrder {
    /// The latest decided ones too.
    #[arg(long)]
    pub all: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Approve {
    /// The request's id, or enough of its beginning.
    pub id: String,
    /// The digest in the line `card` of what you looked at: if anything has changed since, nothing is approved.
    #[arg(long, value_name = "DIGEST")]
    pub card: Option<String>,
    /// Approve without being asked.
    #[arg(long)]
    pub yes: bool,
    /// The amount in dollars, for a payment that asks for it to be typed.
    #[arg(long, value_name = "AMOUNT", value_parser = Usd::parse)]
    pub confirm: Option<Usd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
pub struct Deny {
    /// The request's id, or enough of its beginning.
    pub id: String,
    /// A reason; the agent is told it.
    pub reason: Vec<String>,
}
