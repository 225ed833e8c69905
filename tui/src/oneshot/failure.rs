//! The failure of a command.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;
use bursar_core::text::{for_program, hints_for_program};

use crate::wording;

/// A fault, and optionally a hint that only this program can give: an option or a shell line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The error.
    pub fault: Fault,
    /// The hint that replaces the fault's own.
    pub hint: Option<String>,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self { fault, hint: None }
    }
}

impl Failure {
    /// Returns the failure with the commands of this program in its sentences.
    pub(super) fn for_program(&self, program: &str) -> Self {
        // This refusal names the programs of both editions.
        if self.fault.code == Code::WrongEdition {
            return self.clone();
        }
        let named = |text: &str| hints_for_program(text, program).into_owned();
        let fault = Fault { message: named(&self.fault.message), ..self.fault.clone() };
        let hint = self.hint().map(|hint| for_program(&hint, program).into_owned());
        Self { hint, fault }
    }

    pub(super) fn hint(&self) -> Option<String> {
        let command = self.fault.hint.as_deref().map(wording::in_shell);
        self.hint.clone().or(command)
    }

    /// Returns whether the same command may succeed later without any action.
    pub(super) fn is_retryable(&self) -> bool {
        use Code::{
            Busy, ChainUnavailable, RateLimitExceeded, ResourceUnreachable, TooManyPending,
        };
        matches!(
            self.fault.code,
            Busy | ChainUnavailable | RateLimitExceeded | ResourceUnreachable | TooManyPending
        )
    }
}
