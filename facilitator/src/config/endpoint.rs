//! The URL of a node. Most providers put the API key into it, so it is treated as a secret.

use std::fmt;

use bursar_chain::ports::EndpointLabel;
use url::Url;

/// The URL of a node.
///
/// Only its [label](Endpoint::label) is ever shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// Parses an HTTP URL. Errors do not repeat the text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| {
            format!("one of the entries is not a valid URL ({error}): write it in full")
        })?;
        if !matches!(url.scheme(), "https" | "http") || !url.has_host() {
            return Err("each URL must begin with https:// or http:// and a host".to_owned());
        }
        Ok(Self(url))
    }

    /// The full URL, for the client that connects to it and nothing else.
    pub fn expose(&self) -> &str {
        self.0.as_str()
    }

    /// Scheme, host and port, for logs.
    pub fn label(&self) -> EndpointLabel {
        EndpointLabel::of(&self.0)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint([redacted])")
    }
}
