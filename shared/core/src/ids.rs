//! Identifiers: their text form, the input they accept and how they are shown. Draws no random bytes: they come from
//! the caller.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The text is not a valid identifier.
///
/// The message states the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IdError(pub &'static str);

/// The id of one agent request, in every lane.
///
/// It is both `request_id` and `transaction_id` on the wire. The full id is enough to poll the result, so logs and
/// lists show only [`RequestId::short`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(Uuid);

impl RequestId {
    /// Builds a version 4 UUID (RFC 9562) from 16 random bytes.
    pub fn from_entropy(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Restores an id from its stored form.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the stored form, 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Returns the first 8 hex digits: enough to recognize a request, too few to poll it.
    pub fn short(&self) -> String {
        let mut text = self.0.simple().to_string();
        text.truncate(8);
        text
    }

    /// Returns whether the id starts with `prefix`, ignoring hyphens and case.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        let wanted: String =
            prefix.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        self.0.simple().to_string().starts_with(&wanted)
    }
}

impl FromStr for RequestId {
    type Err = IdError;

    /// Accepts the full hyphenated form only, because the status routes take nothing shorter.
    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.len() != 36 {
            return Err(IdError("a request id must be a complete UUID"));
        }
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|_bad| IdError("a request id must be a complete UUID"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// Shows the short form: the full id is a capability and must not reach a log.
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({}…)", self.short())
    }
}

/// An agent's code, sent as `agent_id`: three capital letters and three digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AgentId([u8; 6]);

impl AgentId {
    /// Derives a code from eight random bytes: 26³ × 10³ values, almost uniformly distributed.
    pub fn from_entropy(bytes: [u8; 8]) -> Self {
        let mut rest = u64::from_le_bytes(bytes);
        let mut draw = |size: u64, first: u8| {
            let step = rest.checked_rem(size).unwrap_or(0);
            rest = rest.checked_div(size).unwrap_or(0);
            first.saturating_add(u8::try_from(step).unwrap_or(0))
        };
        Self([
            draw(26, b'A'),
            draw(26, b'A'),
            draw(26, b'A'),
            draw(10, b'0'),
            draw(10, b'0'),
            draw(10, b'0'),
        ])
    }

    /// Returns the six characters of the code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("??????")
    }
}

impl FromStr for AgentId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        const FORMAT_ERROR: IdError =
            IdError("an agent code has three capital letters and three digits");
        let bytes: [u8; 6] = text.as_bytes().try_into().map_err(|_length| FORMAT_ERROR)?;
        let [a, b, c, x, y, z] = bytes;
        let letters = [a, b, c].iter().all(u8::is_ascii_uppercase);
        let digits = [x, y, z].iter().all(u8::is_ascii_digit);
        if letters && digits { Ok(Self(bytes)) } else { Err(FORMAT_ERROR) }
    }
}

impl TryFrom<String> for AgentId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<AgentId> for String {
    fn from(id: AgentId) -> String {
        id.as_str().to_owned()
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentId({})", self.as_str())
    }
}

/// The number of a seed in the wallet, written `S001` and up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeedId(pub u16);

impl fmt::Display for SeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S{:03}", self.0)
    }
}

impl FromStr for SeedId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        const FORMAT_ERROR: IdError = IdError("a seed id looks like S001");
        let digits = text.strip_prefix(['S', 's']).ok_or(FORMAT_ERROR)?;
        if digits.len() < 3 || digits.len() > 5 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(FORMAT_ERROR);
        }
        digits.parse().map(Self).map_err(|_bad| FORMAT_ERROR)
    }
}

/// A name chosen by the operator: 1 to 100 printable ASCII characters, unique by [`Name::key`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// Returns the name as the operator wrote it, without surrounding white space.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the form used to compare names, which ignores case.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for Name {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let trimmed = text.trim();
        let fits = (1..=100).contains(&trimmed.len());
        if fits && trimmed.bytes().all(|b| (0x20..=0x7e).contains(&b)) {
            Ok(Self(trimmed.to_owned()))
        } else {
            Err(IdError("a name is 1 to 100 printable ASCII characters"))
        }
    }
}

impl TryFrom<String> for Name {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_code_is_three_letters_and_three_digits() {
        for bad in ["", "ABC12", "abc123", "AB1234", "ABCD12", "ABC1234", "ÀBC12"] {
            assert!(bad.parse::<AgentId>().is_err(), "{bad}");
        }
        assert_eq!("ABC123".parse::<AgentId>().unwrap().as_str(), "ABC123");
        for seed in 0..2000u64 {
            let code =
                AgentId::from_entropy(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            assert_eq!(code.as_str().parse::<AgentId>().unwrap(), code);
        }
    }

    #[test]
    fn debug_output_never_contains_a_full_request_id() {
        let id = RequestId::from_entropy([7; 16]);
        let whole = id.to_string();
        assert_eq!(whole.parse::<RequestId>().unwrap(), id);
        assert!(!format!("{id:?}").contains(&whole));
        assert!(id.has_prefix(&id.short()) && id.has_prefix(&whole) && !id.has_prefix("ffff"));
        assert!(whole.replace('-', "").parse::<RequestId>().is_err());
    }

    #[test]
    fn names_keep_their_case_but_compare_case_insensitively() {
        let name: Name = " Research Bot ".parse().unwrap();
        assert_eq!((name.as_str(), name.key().as_str()), ("Research Bot", "research bot"));
        for bad in ["", "  ", "tab\there", "ünicode", &"x".repeat(101)] {
            assert!(bad.parse::<Name>().is_err());
        }
    }
}
