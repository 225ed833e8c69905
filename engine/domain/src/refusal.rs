//! A rule's "no", with the figures that make it exact.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::money::Usd;
use serde::{Deserialize, Serialize};

/// Why a command is refused. It changes nothing by itself; a refused payment of an agent is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    /// Replaces the code's sentence where more is known.
    pub message: Option<String>,
    /// What was asked, where a limit refused it.
    pub requested: Option<Usd>,
    /// What the limit leaves.
    pub bound: Option<Usd>,
}

impl Refusal {
    pub fn new(code: Code) -> Self {
        Self { code, message: None, requested: None, bound: None }
    }

    pub fn because(code: Code, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::new(code) }
    }

    /// A limit's refusal.
    pub fn over(code: Code, requested: Usd, bound: Usd) -> Self {
        Self { requested: Some(requested), bound: Some(bound), ..Self::new(code) }
    }

    /// The sentence its reader gets.
    pub fn sentence(&self) -> &str {
        self.message.as_deref().unwrap_or(self.code.sentence())
    }
}

impl Refusal {
    /// For the operator, who knows the limits: with the figures that met.
    pub fn told(&self) -> String {
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
