//! What a policy says of one ask. One file per lane; all of them pure.

pub mod payments;
pub mod rehearsal;
