//! The effects of a plan, as a simulation of its transactions showed them.

use serde::{Deserialize, Serialize};

/// The result of simulating the whole plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Effects {
    /// Exactly the input leaves, at least the floor arrives, and nothing else changes.
    Proven,
    /// The nodes cannot simulate the plan as a whole.
    #[default]
    Unproven,
}
