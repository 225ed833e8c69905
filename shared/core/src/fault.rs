//! A refusal or failure as one value: the stable code, the sentence for its reader, and a detail for the log only.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codes::Code;

/// A refusal or failure reported to the operator or to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub code: Code,
    /// What happened and what to do. Never contains a secret; for agents, never a path or another agent's name.
    pub message: String,
    /// For this machine's log; not serialized.
    #[serde(skip)]
    pub detail: Option<String>,
}

impl Fault {
    /// Creates a fault with the code's own sentence.
    pub fn new(code: Code) -> Self {
        Self { code, message: code.sentence().to_owned(), detail: None }
    }

    /// Creates a fault with a more specific sentence than the code's own.
    pub fn because(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }

    /// Adds a detail for the log.
    #[must_use]
    pub fn with_detail(mut self, detail: impl fmt::Display) -> Self {
        self.detail = Some(detail.to_string());
        self
    }
}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
