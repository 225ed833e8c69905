//! The journal told entry by entry: what `activity` pages through and `watch` streams.

use serde::{Deserialize, Serialize};

use crate::change::Change;

/// Entries of the journal, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityAnswer {
    pub entries: Vec<ActivityRow>,
    /// There are older ones: `--before` the last of these.
    pub more: bool,
}

/// One entry of the journal. What an entry does not have is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityRow {
    /// Place in the journal, from 1 without gaps.
    pub seq: u64,
    /// UTC, RFC 3339.
    pub at: String,
    /// A stable word such as `payment.held` or `policy.set`.
    pub kind: String,
    /// The whole id of the request that it is about.
    pub request: Option<String>,
    pub agent_id: Option<String>,
    /// The agent's name, if it still has one.
    pub agent: Option<String>,
    /// In token units with the symbol; bare units of an unknown token.
    pub amount: Option<String>,
    /// Host of the request's URL.
    pub host: Option<String>,
    /// One phrase more: why it was held or refused, what was renamed. Text of strangers is in quotes.
    pub detail: Option<String>,
    /// What was changed, with the old and the new values; `detail` says the same in one phrase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}
