//! The demonstration: a toy model for sale and an operator who decides. Tests use these modules too.

pub mod model;
pub mod operator;
