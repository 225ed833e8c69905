//! Settings as shown to operators.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A setting and its effective value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingAnswer {
    pub key: String,
    /// The value as in `settings.toml`: text, number, boolean or list.
    ///
    /// Without `--reveal`, a URL is reduced to scheme, host and port.
    pub value: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_unknown_reason: Option<String>,
    /// The value before the command that has just changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Value>,
    /// `default`, `file`, `environment`, `argument` or `journal`.
    pub source: String,
    /// The default in words.
    pub default: String,
    pub help: String,
    /// The accepted values in words.
    #[serde(default)]
    pub accepts: String,
    /// `settings.toml` or `the journal`.
    #[serde(default)]
    pub stored_in: String,
    /// The environment variable that also sets it; `None` if a change must be in the journal.
    #[serde(default)]
    pub variable: Option<String>,
}
