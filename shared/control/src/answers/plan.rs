//! The answer to a dry run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a command would do, in answer to a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanAnswer {
    /// The changes up to the first one on which later ones depend, in words; empty if the command changes nothing.
    pub changes: Vec<String>,
    /// Whether a change allows more than before; `None` if that does not apply.
    pub loosens: Option<bool>,
    /// What the command would show before its questions, such as a card.
    pub shows: Vec<String>,
    /// The questions and secrets that it would ask for.
    pub asks: Vec<String>,
}
