//! The mandates that we issue: typed fields from which the signed text is built, always the same.

use std::fmt;

use alloy_primitives::{Address, B256, eip191_hash_message};
use bursar_core::canonical::to_python;
use bursar_core::ids::AgentId;
use bursar_core::json::{Object, Value};
use bursar_core::money::Usd;
use bursar_core::networks::ChainId;
use bursar_core::text;
use bursar_core::time::Utc;
use bursar_x402::signature::Signature65;
use serde::{Deserialize, Serialize};

use crate::form::{DECIMALS, TYPE, VERSION};
use crate::ids::{MandateId, PolicyId};

/// The first 16 hex digits of SHA-256 over the hex SHA-256 of an agent's credential.
///
/// It identifies the credential and reveals nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 8]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// The limits for payments, in millionths of the currency.
///
/// Zero means nothing, never "no limit".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Symbol of the currency in which the limits are stated.
    pub currency: String,
    pub daily: Usd,
    pub per_request: Usd,
    pub auto_below: Usd,
}

/// The name of the agent's code in the documents of an edition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentMember {
    /// `id`, in the full edition and the desktop edition.
    Id,
    /// `code`, in the payments-only edition.
    Code,
}

impl AgentMember {
    /// Returns the name of the member.
    pub fn text(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Code => "code",
        }
    }
}

/// What a mandate states about the agent and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub agent: AgentId,
    pub fingerprint: Fingerprint,
    pub policy_id: PolicyId,
    pub limits: Limits,
    /// The networks on which the agent may pay, in ascending order.
    pub networks: Vec<ChainId>,
    /// The paying address, whose key signs.
    pub wallet: Address,
}

/// A mandate to sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    pub id: MandateId,
    pub issued: Utc,
    pub agent_member: AgentMember,
    /// Version of the program that issues the mandate.
    pub issuer_version: String,
    pub terms: Terms,
}

impl Draft {
    /// Returns the text that is signed: the canonical JSON of the mandate without its signature.
    ///
    /// The same draft always gives the same text.
    pub fn text(&self) -> String {
        to_python(&Value::from(self.unsigned()))
    }

    /// Returns the digest that is signed: EIP-191, version `0x45`, over [`Draft::text`].
    pub fn digest(&self) -> B256 {
        eip191_hash_message(self.text())
    }

    /// Returns the whole mandate with its signature.
    pub fn signed(&self, signature: &Signature65) -> Object {
        let signature = Object::new()
            .with("type", "EIP191")
            .with("signer", self.terms.wallet.to_checksum(None))
            .with("value", signature.to_hex());
        self.unsigned().with("signature", signature)
    }

    fn unsigned(&self) -> Object {
        let Terms { agent, fingerprint, policy_id, limits, networks, wallet } = &self.terms;
        let agent = Object::new()
            .with(self.agent_member.text(), agent.as_str())
            .with("authKeyFingerprint", fingerprint.to_string());
        let limits = Object::new()
            .with("currency", limits.currency.as_str())
            .with("decimals", DECIMALS)
            .with("dailyLimit", limits.daily.0)
            .with("perRequestMax", limits.per_request.0)
            .with("autoApproveBelow", limits.auto_below.0);
        let networks = networks.iter().map(|chain| Value::from(format!("eip155:{chain}")));
        let authorization = Object::new()
            .with("policyId", policy_id.to_string())
            .with("limits", limits)
            .with("networks", networks.collect::<Vec<_>>());
        let issuer =
            Object::new().with("type", "Bursar").with("version", self.issuer_version.as_str());
        Object::new()
            .with("type", TYPE)
            .with("version", VERSION)
            .with("id", self.id.to_string())
            .with("issuedAt", text::utc(self.issued))
            .with("agent", agent)
            .with("authorization", authorization)
            .with("wallet", Object::new().with("address", wallet.to_checksum(None)))
            .with("issuer", issuer)
    }
}
