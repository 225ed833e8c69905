//! Effects: what a simulation of a whole plan showed.

use serde::{Deserialize, Serialize};

/// What a simulation of the whole plan showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Effects {
    /// Exactly the input leaves, at least the floor arrives, and nothing else changes.
    Proven,
    /// The nodes cannot simulate the plan as a whole.
    #[default]
    Unproven,
}
