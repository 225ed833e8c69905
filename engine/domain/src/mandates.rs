//! Mandates of agents: what is waiting for its signature, and what is in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::ids::AgentId;
use bursar_core::time::Utc;
use bursar_mandate::{AgentMember, Fingerprint, MandateId, PolicyId};
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::agents::Credential;
pub use crate::issued_mandate::{IssuedMandate, Purpose};
use crate::registrations::{Registration, Upload, UploadEnd};

/// A mandate with its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedMandate {
    pub issued: IssuedMandate,
    pub signature: Signature65,
    pub at: Utc,
}

/// A recorded change of an agent's mandate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MandateEvent {
    /// The operator issued a mandate, so its text may be signed.
    Issued(Box<IssuedMandate>),
    /// The key of the paying address signed an issued mandate.
    Signed { agent: AgentId, id: MandateId, signature: Signature65 },
    /// An issued mandate ended without a signature.
    Ended { agent: AgentId, id: MandateId, end: MandateEnd },
    /// The operator publishes a signed mandate: the registry may receive it from now on.
    UploadBegun(Upload),
    /// The registry answered about a mandate.
    UploadEnded { upload: Upload, end: UploadEnd },
}

/// A command about mandates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MandateAction {
    /// Issues a mandate for an agent, or continues the one that waits for its signature.
    Grant(Box<MandateGrant>),
    /// Issues the mandate with limits of zero that replaces an agent's newest one.
    ///
    /// `id` is the random id of the new mandate.
    Retire { agent: AgentId, id: MandateId },
    /// Records the signature of an issued mandate.
    Sign { id: MandateId, signature: Signature65 },
    /// A person refused an issued mandate on the device.
    Decline { id: MandateId },
    /// Records that the agent's newest signed mandate is going to a registry.
    BeginUpload(Upload),
    /// Records a registry's answer about an upload.
    EndUpload { upload: Upload, end: UploadEnd },
}

/// A mandate that the operator issues.
///
/// Its limits, networks and address are the agent's present ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MandateGrant {
    pub agent: AgentId,
    /// Random ids, which only a new mandate uses.
    pub id: MandateId,
    pub policy_id: PolicyId,
    /// The agent's credential, and its fingerprint, which only the vault can compute.
    pub credential: Credential,
    pub fingerprint: Fingerprint,
    pub agent_member: AgentMember,
    /// Version of this program.
    pub issuer_version: String,
    /// Whether to issue a mandate although a signed one states the present terms.
    pub is_new: bool,
}

/// How an issued mandate ended without a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MandateEnd {
    /// A person refused it on the device.
    Declined,
    /// No person signed it in time.
    TimedOut,
    /// Its terms no longer held when a mandate was issued again.
    Superseded,
}

/// The mandates of the wallet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mandates {
    /// Issued mandates without a signature, at most one for each agent.
    pub unsigned: BTreeMap<AgentId, Arc<IssuedMandate>>,
    /// The newest signed mandate of each agent, deleted agents included.
    pub signed: BTreeMap<AgentId, Arc<SignedMandate>>,
    /// The random id of each policy version that a mandate names, by the version's serial number.
    pub policy_ids: BTreeMap<u64, PolicyId>,
    /// The registries to which an agent's mandates were sent, deleted agents included.
    pub registrations: BTreeMap<AgentId, Vec<Registration>>,
}

impl Mandates {
    /// Returns the mandate that an agent may show: the newest signed one, unless that one retires it.
    pub fn in_force(&self, agent: &AgentId) -> Option<&Arc<SignedMandate>> {
        self.signed.get(agent).filter(|signed| signed.issued.purpose == Purpose::Grant)
    }

    /// Returns the registries to which mandates of an agent were sent.
    pub fn registrations(&self, agent: &AgentId) -> &[Registration] {
        self.registrations.get(agent).map_or(&[], Vec::as_slice)
    }

    /// Returns the registries that publish an agent's limits, or may do so, although its newest mandate retires them.
    pub fn published_after_retirement(
        &self,
        agent: &AgentId,
    ) -> impl Iterator<Item = &Registration> {
        let newest = self.signed.get(agent);
        let is_retired = newest.is_some_and(|signed| signed.issued.purpose == Purpose::Retirement);
        let all = self.registrations(agent).iter();
        all.filter(move |one| is_retired && one.grants().next().is_some())
    }

    /// Returns the issued mandate with this id.
    pub fn find_unsigned(&self, id: MandateId) -> Option<&Arc<IssuedMandate>> {
        self.unsigned.values().find(|issued| issued.draft.id == id)
    }
}
