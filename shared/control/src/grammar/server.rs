//! The commands `server`, `network` and `audit`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerOrder {
    /// Start the agent server of this engine.
    Start {
        /// Let other machines call it too, until it stops. `config set server.allow_lan true` makes this permanent.
        #[arg(long)]
        allow_lan: bool,
    },
    /// Stop the agent server; the engine keeps running.
    Stop,
    /// Show whether the agent server runs, and its URL.
    Status,
}

impl ServerOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            ServerOrder::Start { .. } => "server.start",
            ServerOrder::Stop => "server.stop",
            ServerOrder::Status => "server.status",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkOrder {
    /// Every network Bursar knows.
    List,
    /// Allow agents and sends to use a network.
    Enable { network: String },
    /// Refuse all requests and sends on a network.
    Disable { network: String },
    /// Choose the JSON-RPC endpoints of a network.
    Rpc {
        network: String,
        /// URLs in the order in which they are tried, or `default`.
        #[arg(required = true)]
        urls: Vec<String>,
    },
}

impl NetworkOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            NetworkOrder::List => "network.list",
            NetworkOrder::Enable { .. } => "network.enable",
            NetworkOrder::Disable { .. } => "network.disable",
            NetworkOrder::Rpc { .. } => "network.rpc",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOrder {
    /// Check every entry of the journal against its chain of hashes.
    Verify {
        /// A head hash you noted earlier, which must be part of the chain.
        #[arg(long, value_name = "HASH")]
        head: Option<String>,
    },
    /// Accept a journal that did not match the wallet at unlock; needs the password.
    Accept,
}

impl AuditOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            AuditOrder::Verify { .. } => "audit.verify",
            AuditOrder::Accept => "audit.accept",
        }
    }
}
