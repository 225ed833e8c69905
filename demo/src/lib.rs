//! The demonstration: a toy model for sale, an agent that pays and an operator who decides. Tests use these parts too.

pub mod agent;
pub mod model;
pub mod operator;
