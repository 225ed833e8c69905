//! What goes wrong, as one value: the stable code, the sentence that its reader gets, and a detail that
//! only the log gets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codes::Code;

/// A refusal or failure on its way to a person or an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub code: Code,
    /// Says what happened and what to do; never a secret, and to agents never a path or another's name.
    pub message: String,
    /// For the log of this machine.
    #[serde(skip)]
    pub detail: Option<String>,
}

impl Fault {
    /// With the code's own sentence.
    pub fn new(code: Code) -> Self {
        Self { code, message: code.sentence().to_owned(), detail: None }
    }

    /// With a sentence that knows more.
    pub fn because(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }

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
