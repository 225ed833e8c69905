//! Intent Mandates: the signed statement of an operator that an agent may spend, within limits, from an address.
//!
//! A mandate authorizes no payment. It shows a merchant that the key of a paying address stands behind an agent. The
//! form is the original wallet's (`IntentMandate`, version `ap2.primer/v0.1`): a JSON object whose members without
//! `signature`, `registryId` and `registryUrl` are signed as CPython's canonical text with EIP-191.
//!
//! - [`Draft`] is a mandate that we issue: its [`Terms`] become the text to sign.
//! - [`read`] reads a mandate of any issuer and checks form, signature and signer.

mod draft;
mod ids;
mod presented;

pub use draft::{AgentMember, Draft, Fingerprint, Limits, Terms};
pub use ids::{MandateId, PolicyId};
pub use presented::{BYTES_MAX, Defect, Presented, Statement, Unreadable, read};

/// The largest limit that a registry accepts, in millionths of the currency.
pub const LIMIT_MAX: u64 = 1_000_000_000_000_000;

/// `type` of every mandate.
const TYPE: &str = "IntentMandate";

/// `version` of the mandates that we issue.
const VERSION: &str = "ap2.primer/v0.1";

/// Decimals of the limits.
const DECIMALS: u64 = 6;

/// Members that stand outside the signature.
const UNSIGNED_MEMBERS: [&str; 3] = ["signature", "registryId", "registryUrl"];
