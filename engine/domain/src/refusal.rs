//! Why a rule refuses a command, with the exact amounts.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use serde::{Deserialize, Serialize};

/// Why a command is refused.
///
/// A refusal changes nothing by itself. A request that the policy refuses is recorded, unless the agent has too many
/// refusals in the minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    /// Replaces the code's default sentence where a more precise one is known.
    pub message: Option<String>,
    /// The requested amount, if a limit refused it.
    pub requested: Option<Usd>,
    /// The amount that the limit still permits.
    pub bound: Option<Usd>,
}

impl Refusal {
    /// Creates a refusal with the code's default sentence.
    pub fn new(code: Code) -> Self {
        Self { code, message: None, requested: None, bound: None }
    }

    /// Creates a refusal with a sentence that replaces the code's default.
    pub fn because(code: Code, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::new(code) }
    }

    /// Creates the refusal of a limit: `requested` is over `bound`.
    pub fn over_limit(code: Code, requested: Usd, bound: Usd) -> Self {
        Self { requested: Some(requested), bound: Some(bound), ..Self::new(code) }
    }

    /// Returns the sentence to show: the message, or else the code's default.
    pub fn sentence(&self) -> &str {
        self.message.as_deref().unwrap_or(self.code.sentence())
    }
}

impl Refusal {
    /// Returns the sentence with the amounts, for the operator, who may know the limits.
    pub fn describe(&self) -> String {
        match (self.requested, self.bound) {
            (Some(asked), Some(left)) => {
                let sentence = self.sentence().trim_end_matches('.');
                format!("{sentence} ({asked} USD requested, at most {left})")
            }
            _no_limit => self.sentence().to_owned(),
        }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Fault::because(refusal.code, refusal.sentence())
    }
}
