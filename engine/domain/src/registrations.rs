//! What registries publish of an agent's mandates, as far as their answers show it.

use std::sync::Arc;

use bursar_core::ids::AgentId;
use bursar_core::time::Utc;
use bursar_mandate::{MandateId, RegistryEntry, RegistryRefusal};
use serde::{Deserialize, Serialize};

use crate::issued_mandate::{IssuedMandate, Purpose};

/// A mandate that was sent to a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The whole mandate, so that its signer can retire it after the agent got another address.
    pub issued: Arc<IssuedMandate>,
    /// The uploads without a known outcome.
    ///
    /// A later refusal says nothing about an earlier one.
    pub attempts: u32,
    /// The registry's last confirmation, which holds only without such uploads.
    pub last_confirmed: Option<Confirmed>,
}

/// A registry's confirmation that it publishes a mandate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// The names that the registry gave the mandate.
    pub entry: RegistryEntry,
    pub at: Utc,
}

/// One registry and the mandates of one agent there, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The base URL of the registry.
    pub base: String,
    pub publications: Vec<Publication>,
}

impl Publication {
    /// Returns the id of the mandate.
    pub fn id(&self) -> MandateId {
        self.issued.draft.id
    }

    /// Returns the confirmation that the registry publishes the mandate; `None` if that is unknown.
    pub fn confirmed(&self) -> Option<&Confirmed> {
        self.last_confirmed.as_ref().filter(|_known| self.attempts == 0)
    }
}

impl Registration {
    /// Returns the publication of a mandate.
    pub fn find(&self, id: MandateId) -> Option<&Publication> {
        self.publications.iter().find(|one| one.id() == id)
    }

    /// Returns the mandates with limits that the registry publishes, or may publish.
    pub fn grants(&self) -> impl Iterator<Item = &Publication> {
        self.publications.iter().filter(|one| one.issued.purpose == Purpose::Grant)
    }
}

/// What a registry's answer shows about a mandate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum UploadEnd {
    Published(RegistryEntry),
    Refused(RegistryRefusal),
    /// A lookup found that the registry does not publish it.
    Absent,
}

/// A mandate of an agent at the registry with a base URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    pub agent: AgentId,
    pub id: MandateId,
    pub base: String,
}
