//! The seam where a test replaces the rules by mutated ones, to prove that its checks find the mutation.

use std::fmt;
use std::sync::Arc;

use bursar_domain::apply::ChangedRecord;
use bursar_domain::{Command, Decision, Entry, Refusal, State};

/// Rules with a planted mutation.
pub trait MutatedRules: Send + Sync + fmt::Debug {
    /// Stands in for [`bursar_domain::decide()`].
    ///
    /// # Errors
    /// The command is refused.
    fn decide(&self, state: &State, command: &Command) -> Result<Decision, Refusal>;

    /// Stands in for [`bursar_domain::apply()`].
    fn apply(&self, state: &mut State, entry: &Entry) -> Option<ChangedRecord>;
}

/// The rules of a core.
///
/// The default, which production uses, calls the functions of the domain.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    mutated_rules: Option<Arc<dyn MutatedRules>>,
}

impl Rules {
    /// Replaces the rules; only tests call it.
    pub fn with_mutated_rules(rules: Arc<dyn MutatedRules>) -> Self {
        Self { mutated_rules: Some(rules) }
    }

    /// Decides a command against the state.
    ///
    /// # Errors
    /// The command is refused.
    pub fn decide(&self, state: &State, command: &Command) -> Result<Decision, Refusal> {
        match &self.mutated_rules {
            None => bursar_domain::decide(state, command),
            Some(mutated) => mutated.decide(state, command),
        }
    }

    /// Applies one entry to the state.
    pub fn apply(&self, state: &mut State, entry: &Entry) -> Option<ChangedRecord> {
        match &self.mutated_rules {
            None => bursar_domain::apply(state, entry),
            Some(mutated) => mutated.apply(state, entry),
        }
    }
}
