//! The ids of a mandate and of a policy version in it: random, so that they reveal nothing.

use std::fmt;
use std::str::FromStr;

use bursar_core::ids::IdError;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of a mandate: a version 4 UUID (RFC 9562), random.
///
/// It is no secret: the operator shares it with merchants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MandateId(Uuid);

/// The id of a policy version in mandates: a version 4 UUID (RFC 9562), random.
///
/// It reveals neither the name of the policy nor how many versions there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PolicyId(Uuid);

impl MandateId {
    /// Builds an id from 16 random bytes.
    pub fn from_entropy(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

impl PolicyId {
    /// Builds an id from 16 random bytes.
    pub fn from_entropy(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

impl FromStr for MandateId {
    type Err = IdError;

    /// Accepts the hyphenated form only.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = Uuid::try_parse(text).ok().filter(|_id| text.len() == 36);
        id.map(Self).ok_or(IdError("a mandate id must be a complete UUID"))
    }
}

impl fmt::Display for MandateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
