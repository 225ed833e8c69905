//! The command `mandate`.

use bursar_core::ids::Name;
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use super::history::Since;

/// `mandate …`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MandateOrder {
    /// Sign a mandate that states an agent's limits, networks and address.
    ///
    /// If a signed mandate already states them, it is shown. For an address on a Ledger, the Ledger shows the text for
    /// up to 15 minutes. A mandate authorizes no payment.
    Create {
        /// The agent's code, or its name.
        agent: Name,
        /// Sign another mandate although one states the same.
        #[arg(long)]
        #[serde(default)]
        new: bool,
    },
    /// The mandates of all agents, and whether their terms still hold.
    List,
    /// The newest mandate of an agent, with the signed JSON document for merchants.
    Show {
        /// The agent's code, or its name.
        agent: Name,
        /// Show an unsigned IntentMandate of AP2 v0.1 with the agent's present terms in its place.
        #[arg(long, requires = "until")]
        #[serde(default)]
        ap2: bool,
        /// With --ap2: when that mandate expires, as a date, a time, or a time from now like 7d.
        #[arg(long, value_name = "DATE|DURATION", requires = "ap2")]
        #[serde(default)]
        until: Option<Since>,
    },
    /// Publish an agent's newest mandate at the registry of the setting registry.url.
    ///
    /// Shows what the registry and its readers learn, and asks first. If the outcome of an earlier upload is unknown, the
    /// registry is asked for the mandate before it is sent again.
    Upload {
        /// The agent's code, or its name.
        agent: Name,
    },
    /// Sign a mandate with limits of zero, which replaces the agent's newest one.
    ///
    /// It also works for suspended and deleted agents. Where the registry publishes the agent's limits, it asks first and
    /// publishes the new mandate there. The signature on a copy of the former mandate remains valid.
    Retire {
        /// The agent's code, or its name.
        agent: Name,
        /// Sign only, and leave the registry as it is.
        #[arg(long)]
        #[serde(default)]
        no_upload: bool,
    },
    /// Check a mandate of any issuer: its form, its text and its signer. Needs no wallet and no network.
    ///
    /// The exit code is 0 for a good mandate, 1 for another, and 2 if the file cannot be read as a mandate.
    Verify {
        /// A file with the JSON document; `-` reads standard input.
        file: String,
    },
}

impl MandateOrder {
    /// Returns the command's name in the JSON envelope.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "mandate.create",
            Self::List => "mandate.list",
            Self::Show { .. } => "mandate.show",
            Self::Upload { .. } => "mandate.upload",
            Self::Retire { .. } => "mandate.retire",
            Self::Verify { .. } => "mandate.verify",
        }
    }
}
