//! Applies a policy to one request. One file per lane; all of them pure.

pub mod payments;
pub mod rehearsal;
