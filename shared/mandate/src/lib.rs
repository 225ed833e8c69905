//! Intent Mandates: the signed statement of an operator that an agent may spend, within limits, from an address.
//!
//! A mandate authorizes no payment. It shows a merchant that the key of a paying address stands behind an agent. The
//! form is the original wallet's (`IntentMandate`, version `ap2.primer/v0.1`): a JSON object whose members without
//! `signature`, `registryId` and `registryUrl` are signed as CPython's canonical text with EIP-191.
//!
//! - [`Draft`] is a mandate that we issue: its [`Terms`] become the text to sign.
//! - [`read`] reads a mandate of any issuer and checks form, signature and signer.
//! - [`read_upload`] and [`read_lookup`] read the replies of a registry that publishes mandates.

mod draft;
mod form;
mod ids;
mod presented;
mod registry;

pub use draft::{AgentMember, Draft, Fingerprint, Limits, Terms};
pub use form::LIMIT_MAX;
pub use ids::{MandateId, PolicyId};
pub use presented::{BYTES_MAX, Defect, Presented, Statement, Unreadable, read};
pub use registry::{
    LookupReply, RegistryEntry, RegistryRefusal, UploadReply, Wanted, read_lookup, read_upload,
};
