//! How agents authenticate (wallet specification, Agent authentication).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an agent authenticates its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// A shared secret signs each request; recommended.
    Hmac,
    /// A token travels with each request.
    Bearer,
}

impl AuthMode {
    /// Both modes, the recommended one first.
    pub const ALL: [Self; 2] = [Self::Hmac, Self::Bearer];

    /// Returns the stable text on the wire.
    pub fn text(self) -> &'static str {
        match self {
            AuthMode::Hmac => "hmac",
            AuthMode::Bearer => "bearer",
        }
    }
}
