//! Journal entries as shown by `activity`, page by page, and by `watch`, as a stream.

use bursar_core::amount::Amount;
use bursar_core::change::Change;
use bursar_core::status::EntryKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Journal entries, newest first: one for each request, or with `--raw` all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityAnswer {
    pub entries: Vec<ActivityRow>,
    /// There are older entries: pass the last `seq` to `--before`.
    pub more: bool,
}

/// One journal entry.
///
/// Fields that an entry does not have are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityRow {
    /// Position in the journal, from 1 without gaps.
    pub seq: u64,
    /// UTC, RFC 3339.
    pub at: String,
    pub kind: EntryKind,
    /// The full id of the entry's request.
    pub request: Option<String>,
    pub agent_id: Option<String>,
    /// The agent's name, if it still exists.
    pub agent: Option<String>,
    pub amount: Option<Amount>,
    /// Host of the request's URL.
    pub host: Option<String>,
    /// Further detail, such as why a request was held or refused, or what was renamed.
    ///
    /// Untrusted text is quoted or escaped.
    pub detail: Option<String>,
    /// Changed fields with old and new values; `detail` has the same in one phrase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
}

impl ActivityRow {
    /// Returns the amount for people.
    pub fn amount_text(&self) -> Option<&String> {
        self.amount.as_ref().map(|amount| &amount.text)
    }
}
