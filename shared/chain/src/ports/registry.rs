//! A registry of mandates.

use std::fmt::Debug;
use std::pin::Pin;

use bursar_outbound::EndpointLabel;

type RegistryAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<RegistryReply, RegistryFault>> + Send + 'a>>;

/// A registry of mandates, which serves `api/mandates` below its base URL.
pub trait Registry: Send + Sync + Debug {
    /// Asks for the mandate with this id.
    fn look_up<'a>(&'a self, base: &'a str, id: &'a str) -> RegistryAnswer<'a>;

    /// Publishes a mandate, which is a JSON document.
    ///
    /// The outcome of a call that fails is unknown.
    fn publish<'a>(&'a self, base: &'a str, document: String) -> RegistryAnswer<'a>;
}

/// A registry's reply with any status except a redirect.
///
/// The body is foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Why there is no reply of a registry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryFault {
    /// The base URL is not permitted.
    #[error("registry.url must be an https URL without a user name (http only on this machine)")]
    Url,
    /// Nothing was sent, because this machine cannot make connections.
    #[error("this machine cannot connect: {0}")]
    Machine(String),
    /// Nothing was sent, because the document is longer than a registry accepts.
    #[error("the mandate is longer than the 50,000 bytes that a registry accepts")]
    TooLong,
    #[error("{endpoint} did not answer: {reason}")]
    NoReply { endpoint: EndpointLabel, reason: String },
}
