//! What `doctor` found.

use serde::{Deserialize, Serialize};

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnswer {
    pub check: String,
    pub result: CheckResult,
    pub finding: String,
    /// What to do about it.
    pub advice: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    Ok,
    Warn,
    Fail,
}

impl CheckResult {
    pub fn text(self) -> &'static str {
        match self {
            CheckResult::Ok => "ok",
            CheckResult::Warn => "warn",
            CheckResult::Fail => "FAIL",
        }
    }
}

impl CheckAnswer {
    pub fn ok(check: impl Into<String>, finding: impl Into<String>) -> Self {
        let (check, finding) = (check.into(), finding.into());
        Self { check, result: CheckResult::Ok, finding, advice: None }
    }

    pub fn warn(
        check: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let advice = Some(advice.into());
        Self { result: CheckResult::Warn, advice, ..Self::ok(check, finding) }
    }

    pub fn fail(
        check: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { result: CheckResult::Fail, ..Self::warn(check, finding, advice) }
    }
}
