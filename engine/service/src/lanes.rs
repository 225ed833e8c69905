//! The lanes: the steps of a request that reach the outside. A lane sends its results to the core as actions, and the
//! domain decides what follows.

pub mod allowances;
mod batch;
pub(crate) mod devices;
mod fields;
pub mod lending;
mod measurement_cache;
pub mod payments;
pub mod plans;
mod rehearsal;
mod revocation;
pub mod trading;
pub mod tx_driver;

pub use fields::InputFault;
