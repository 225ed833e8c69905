//! The lanes: the steps of a request that touch the world. Everything a lane learns goes into a command;
//! what follows from it is decided by the domain.

pub mod courier;
pub mod payments;
