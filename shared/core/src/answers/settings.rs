//! Settings in answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One setting as it is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingAnswer {
    pub key: String,
    /// Text, number, truth or list, as `settings.toml` would have it; of a URL without `--reveal` its
    /// scheme, host and port.
    pub value: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_unknown_reason: Option<String>,
    /// What it was until the command that has just set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Value>,
    /// `default`, `file`, `environment`, `argument` or `journal`.
    pub source: String,
    /// In words.
    pub default: String,
    pub help: String,
}
