//! The demonstration: a toy model for sale, and a scripted operator. Tests use these modules too.

pub mod model;
pub mod operator;
