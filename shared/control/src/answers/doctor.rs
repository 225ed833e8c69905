//! Results of `doctor`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckAnswer {
    pub check: String,
    pub result: CheckResult,
    pub finding: String,
    /// What to do about the finding.
    pub advice: Option<String>,
}

/// The severity of a finding.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    Ok,
    Warn,
    Fail,
}

impl CheckResult {
    /// Returns the word shown in the report.
    pub fn text(self) -> &'static str {
        match self {
            CheckResult::Ok => "ok",
            CheckResult::Warn => "warn",
            CheckResult::Fail => "FAIL",
        }
    }
}

impl CheckAnswer {
    /// Creates a finding that needs no action.
    pub fn ok(check: impl Into<String>, finding: impl Into<String>) -> Self {
        let (check, finding) = (check.into(), finding.into());
        Self { check, result: CheckResult::Ok, finding, advice: None }
    }

    /// Creates a finding that needs attention but does not stop the wallet.
    pub fn warn(
        check: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { result: CheckResult::Warn, advice, ..Self::ok(check, finding) }
    }

    /// Creates a finding about something that does not work.
    pub fn fail(
        check: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { result: CheckResult::Fail, ..Self::warn(check, finding, advice) }
    }
}
