//! A refusal or failure as one value: the stable code, the sentence for its reader, and a detail for the log only.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codes::Code;
use crate::status::RequestStatus;
use crate::text;

/// Maximum number of characters of a message: more than any sentence of ours has.
pub const MESSAGE_CHARS_MAX: usize = 2_000;

/// A refusal or failure reported to the operator or to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub code: Code,
    /// What happened and what to do.
    ///
    /// Never contains a secret; for agents, never a path or another agent's name.
    pub message: String,
    /// The command that most likely helps, without the program's name, like `wallet open`.
    ///
    /// Each client shows the command as the operator would type it in that client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// How the request ended, if that is why a decision came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_status: Option<RequestStatus>,
    /// For this machine's log; not serialized.
    #[serde(skip)]
    pub detail: Option<String>,
}

impl Fault {
    /// Creates a fault with the code's own sentence and hint.
    pub fn new(code: Code) -> Self {
        Self::because(code, code.sentence())
    }

    /// Creates a fault with a more specific sentence than the code's own, and the code's hint.
    ///
    /// Unsafe characters are escaped, so that foreign text cannot move a cursor. A message longer than
    /// [`MESSAGE_CHARS_MAX`] is cut.
    pub fn because(code: Code, message: impl Into<String>) -> Self {
        let hint = code.hint().map(str::to_owned);
        Self { code, message: readable(message.into()), hint, request_status: None, detail: None }
    }

    /// Replaces the code's own hint.
    #[must_use]
    pub fn with_hint(mut self, command: impl Into<String>) -> Self {
        self.hint = Some(command.into());
        self
    }

    /// Adds how the request ended.
    #[must_use]
    pub fn with_request_status(mut self, status: RequestStatus) -> Self {
        self.request_status = Some(status);
        self
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

/// Returns a message with its unsafe characters escaped, except for ends of lines, and cut after [`MESSAGE_CHARS_MAX`].
fn readable(message: String) -> String {
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n');
    if message.len() <= MESSAGE_CHARS_MAX && message.bytes().all(is_plain) {
        return message;
    }
    let kept: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
    let mut shown = kept.split('\n').map(text::visible).collect::<Vec<_>>().join("\n");
    if kept.len() < message.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_repeats_foreign_text_escaped_and_in_short() {
        let message = |text: &str| Fault::because(Code::BadInput, text).message;
        for ours in ["Zwei Zeilen,\nmit Grüßen.", ""] {
            assert_eq!(message(ours), ours);
        }
        assert_eq!(message("no \u{1b}[2J\u{9b}\r"), "no \\u{1b}[2J\\u{9b}\\u{d}");
        let long = message(&"é".repeat(100_000));
        assert_eq!(long, format!("{}…", "é".repeat(2_000)));
    }
}
