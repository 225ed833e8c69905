//! Lending: which vaults can be trusted with a stablecoin, and what an address has in them.
//!
//! The rules and the call data are in `bursar-morpho`. This module reads the chain: every figure of one answer is from
//! the same block.

mod lane;
mod positions;
mod survey;

pub use lane::Lending;
pub use positions::{OwnerPositions, Position};
pub use survey::{Survey, Venue};
