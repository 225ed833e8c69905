//! The names that completion offers.

use bursar_core::networks::NETWORKS;
use bursar_core::settings::keys::Key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grammar::names::NameKind;

/// The names and ids of existing objects, without amounts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamesAnswer {
    /// The first eight digits of the ids of requests that wait for a decision.
    pub waiting: Vec<String>,
    /// Those of the latest requests.
    pub requests: Vec<String>,
    /// Those of the operator's sends.
    pub sends: Vec<String>,
    pub agents: Vec<String>,
    pub policies: Vec<String>,
    /// The labels of the wallet's addresses.
    pub addresses: Vec<String>,
    pub venues: Vec<String>,
    pub seeds: Vec<String>,
    /// The addresses of payees that have names.
    pub payees: Vec<String>,
}

impl NamesAnswer {
    /// Returns the names of a kind.
    pub fn of(&self, kind: NameKind) -> Vec<String> {
        match kind {
            NameKind::WaitingRequest => self.waiting.clone(),
            NameKind::Request => self.requests.clone(),
            NameKind::Send => self.sends.clone(),
            NameKind::Agent => self.agents.clone(),
            NameKind::Policy => self.policies.clone(),
            NameKind::Address => self.addresses.clone(),
            NameKind::Network => NETWORKS
                .iter()
                .filter_map(|row| row.v1_names.first())
                .map(|name| (*name).to_owned())
                .collect(),
            NameKind::Venue => self.venues.clone(),
            NameKind::Seed => self.seeds.clone(),
            NameKind::Setting => Key::all().iter().map(ToString::to_string).collect(),
            NameKind::Payee => self.payees.clone(),
        }
    }
}
