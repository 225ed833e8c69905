//! Proofs of receipts: anchors, which commit to every receipt of the journal so far, and signed statements over them.

use alloy_primitives::{Address, B256, eip191_hash_message};
use bursar_core::canonical::to_python;
use bursar_core::ids::{AgentId, Name, RequestId};
use bursar_core::json::{Object, Value};
use bursar_core::time::Utc;
use bursar_mandate::{AgentMember, MandateId};
use serde::{Deserialize, Serialize};

/// `type` of every statement.
const TYPE: &str = "BursarReceiptProof";

/// Commits to the receipts of all requests in the entries up to `through`.
///
/// The hash of the entry that contains it is the head of the proofs that rest on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    pub through: u64,
    /// The hash of entry `through`.
    pub head: [u8; 32],
    /// The number of requests, which is the number of leaves.
    pub requests: u64,
    /// The Merkle tree hash (RFC 9162, section 2.1.1) over one leaf for each request.
    pub root: [u8; 32],
    /// The newest of these entries at which the operator accepted the journal as it was.
    pub accepted: Option<u64>,
    /// The newest of these entries at which the journal was restored from a backup.
    pub restored: Option<u64>,
}

/// What the paying address of a request signs about its receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    pub request: RequestId,
    /// The hash of the anchor's entry.
    pub head: [u8; 32],
    /// The entries that the receipt rests on.
    pub entries: Vec<u64>,
    pub agent: AgentId,
    pub agent_member: AgentMember,
    /// `None` if the agent was deleted.
    pub agent_name: Option<Name>,
    /// The mandate that was in force when the payment was authorized.
    pub mandate: Option<MandateId>,
    pub signer: Address,
    /// When a person must have signed on a device; `None` if the wallet has the key.
    pub until: Option<Utc>,
}

impl Statement {
    /// Returns the statement as JSON.
    pub fn to_json(&self) -> Object {
        let agent = Object::new().with(self.agent_member.text(), self.agent.as_str()).with(
            "name",
            self.agent_name.as_ref().map_or(Value::Null, |name| name.as_str().into()),
        );
        let entries = self.entries.iter().map(|entry| Value::from(*entry));
        Object::new()
            .with("type", TYPE)
            .with("version", 1u64)
            .with("request", self.request.to_string())
            .with("head", alloy_primitives::hex::encode(self.head))
            .with("entries", entries.collect::<Vec<_>>())
            .with("agent", agent)
            .with("mandateId", self.mandate.map_or(Value::Null, |id| id.to_string().into()))
            .with("wallet", Object::new().with("address", self.signer.to_checksum(None)))
    }

    /// Returns the text that is signed: the canonical JSON of the statement.
    pub fn text(&self) -> String {
        to_python(&Value::from(self.to_json()))
    }

    /// Returns the digest that is signed: EIP-191, version `0x45`, over [`Statement::text`].
    pub fn digest(&self) -> B256 {
        eip191_hash_message(self.text())
    }
}

/// A recorded step of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProofEvent {
    Anchored(Anchor),
    /// The text may be signed.
    Stated(Box<Statement>),
}

/// A command of the operator for a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProofAction {
    /// Records the anchor of entries that are on disk.
    Anchor(Anchor),
    /// Records a statement, and permits its signature.
    State(Box<Statement>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// `docs/receipt-proof.md` describes these bytes.
    #[test]
    fn anchor_has_the_documented_layout() {
        let anchor = Anchor {
            through: 300,
            head: [1; 32],
            requests: 2,
            root: [2; 32],
            accepted: None,
            restored: Some(7),
        };
        let event = Event::Proof(ProofEvent::Anchored(anchor));
        let bytes = postcard::to_allocvec(&event).unwrap();
        let expected = [&[65, 0, 0xac, 0x02][..], &[1; 32], &[2], &[2; 32], &[0, 1, 7]].concat();
        assert_eq!(bytes, expected);
    }
}
