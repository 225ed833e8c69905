//! The `agent` commands.

use bursar_core::auth::AuthMode;
use bursar_core::ids::Name;
use clap::Subcommand;
use clap::builder::PossibleValue;
use serde::{Deserialize, Serialize};

use super::choice::one_of;

/// Returns a mode with its explanation for `--help`.
fn auth_value(mode: AuthMode) -> PossibleValue {
    PossibleValue::new(mode.text()).help(match mode {
        AuthMode::Hmac => "A shared secret signs each request; recommended",
        AuthMode::Bearer => "A token travels with each request",
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentOrder {
    /// Register an agent and show its credentials.
    Register {
        name: Name,
        #[arg(long, value_parser = one_of(AuthMode::ALL.map(|mode| (mode, auth_value(mode)))), default_value = "hmac")]
        auth: AuthMode,
    },
    /// Give an agent its policy and its paying address; it may work from then on.
    ///
    /// An agent that is registered but not commissioned can authenticate, but all its payments are refused.
    /// `agent edit` changes policy or address later; `agent suspend` withdraws the permission.
    Commission {
        /// The agent's code, or its name.
        agent: Name,
        policy: Name,
        label: Name,
        /// Also sign a mandate that states the agent's limits: see `mandate create`.
        #[arg(long)]
        #[serde(default)]
        mandate: bool,
    },
    /// All agents with their status and what they have spent.
    List,
    /// One agent, by name or code.
    Show { agent: Name },
    /// Show the credentials of an hmac agent again, or issue new ones to any agent.
    Instructions {
        agent: Name,
        /// Issue new credentials; the old ones stop working at once.
        #[arg(long)]
        regenerate: bool,
    },
    /// Change an agent's policy or address; what it has spent today still counts.
    #[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
    Edit {
        agent: Name,
        #[arg(long, group = "change")]
        policy: Option<Name>,
        /// Label of the paying address.
        #[arg(long, value_name = "LABEL", group = "change")]
        address: Option<Name>,
    },
    /// Delete an agent permanently; its requests stay in the history.
    Delete {
        agent: Name,
        /// The agent's name again, instead of typing it at the prompt.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
    },
    /// Refuse all requests of an agent until `agent resume`.
    ///
    /// Its waiting requests still wait for your decision, unless --deny denies them.
    Suspend {
        agent: Name,
        /// Also deny the agent's waiting requests.
        #[arg(long)]
        #[serde(default)]
        deny: bool,
    },
    /// Let a suspended agent work again.
    #[command(alias = "activate")]
    Resume { agent: Name },
    /// Grant today's allowance that a doubt about the clock holds back.
    Renew { agent: Name },
}

impl AgentOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            AgentOrder::Register { .. } => "agent.register",
            AgentOrder::Commission { .. } => "agent.commission",
            AgentOrder::Edit { .. } => "agent.edit",
            AgentOrder::Delete { .. } => "agent.delete",
            AgentOrder::List => "agent.list",
            AgentOrder::Show { .. } => "agent.show",
            AgentOrder::Instructions { .. } => "agent.instructions",
            AgentOrder::Suspend { .. } => "agent.suspend",
            AgentOrder::Resume { .. } => "agent.resume",
            AgentOrder::Renew { .. } => "agent.renew",
        }
    }
}
