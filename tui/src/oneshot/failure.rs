//! The failure of a command.

use bursar_core::codes::Code;
use bursar_core::fault::Fault;

use super::hints;

/// A fault, and the option or command that would help if only this side knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub fault: Fault,
    /// Takes the place of the usual hint for the fault.
    pub hint: Option<String>,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self { fault, hint: None }
    }
}

impl Failure {
    pub(super) fn hint(&self) -> Option<&str> {
        self.hint.as_deref().or_else(|| hints::of(&self.fault))
    }

    /// Returns whether the same command may succeed a little later without any action.
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
