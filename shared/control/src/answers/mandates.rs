//! Mandates: those of the wallet's agents, and the check of any issuer's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The status of an agent's newest mandate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MandateStatus {
    /// Signed, and its terms hold.
    InForce,
    /// Signed, but a term has changed.
    Stale,
    /// Replaced by one with limits of zero.
    Retired,
    /// Replaced by one with limits of zero, while a registry still publishes limits, or may do so.
    RetiredPublished,
    /// Issued, but not signed.
    Unsigned,
}

impl MandateStatus {
    /// Returns the status in words.
    pub fn text(self) -> &'static str {
        match self {
            Self::InForce => "in force",
            Self::Stale => "stale",
            Self::Retired => "retired",
            Self::RetiredPublished => "retired here, still published",
            Self::Unsigned => "not signed",
        }
    }
}

/// The newest mandate of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MandateAnswer {
    pub agent_id: String,
    /// `None` if the agent was deleted.
    pub agent: Option<String>,
    pub id: String,
    pub status: MandateStatus,
    /// The changed terms of a stale mandate.
    pub stale_reasons: Vec<String>,
    /// In UTC.
    pub issued: String,
    /// The name of the policy, which the mandate does not contain.
    pub policy: String,
    pub currency: String,
    /// Limits in the currency.
    pub daily: String,
    pub per_request: String,
    pub auto_below: String,
    pub networks: Vec<String>,
    pub address: String,
    pub fingerprint: String,
    /// The EIP-191 hash of the text that is signed.
    pub digest: String,
    /// The signed document; `None` if the mandate is not signed.
    pub mandate: Option<serde_json::Value>,
    /// The registries to which mandates of the agent were sent.
    pub registries: Vec<RegistrationAnswer>,
}

/// What a registry publishes of an agent, as far as its answers showed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistrationAnswer {
    /// Scheme and host of the registry.
    pub registry: String,
    /// Whether it is the registry of `registry.url`.
    pub is_set: bool,
    /// Oldest first.
    pub mandates: Vec<PublicationAnswer>,
}

/// A mandate that was sent to a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PublicationAnswer {
    pub mandate: String,
    /// Whether it is the agent's newest mandate.
    pub is_newest: bool,
    pub signer: String,
    /// When the registry confirmed it, in UTC; `None` if it is unknown whether the registry publishes it.
    pub confirmed: Option<String>,
    pub registry_id: Option<String>,
    /// Foreign text.
    pub url: Option<String>,
}

/// An agent's present terms as an IntentMandate of AP2 v0.1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ap2Answer {
    /// Always false.
    pub signed: bool,
    pub document: serde_json::Value,
}

/// The check of a mandate of any issuer.
///
/// Its texts are foreign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MandateCheckAnswer {
    /// Whether the mandate is complete, and signed by the key of its paying address.
    pub good: bool,
    /// Its defects; empty if it is good.
    pub defects: Vec<String>,
    /// What a good mandate proves and what it does not.
    pub meaning: String,
    pub id: Option<String>,
    pub issued: Option<String>,
    pub issuer: Option<String>,
    pub agent: Option<String>,
    pub fingerprint: Option<String>,
    pub policy_id: Option<String>,
    pub currency: Option<String>,
    /// Limits in the currency; `None` if the issuer states none.
    pub daily: Option<String>,
    pub per_request: Option<String>,
    pub auto_below: Option<String>,
    pub networks: Vec<String>,
    /// The paying address that it names.
    pub wallet: Option<String>,
    /// The address whose key made the signature.
    pub signer: Option<String>,
    /// What a registry added, outside the signature.
    pub registry_id: Option<String>,
    pub registry_url: Option<String>,
}
