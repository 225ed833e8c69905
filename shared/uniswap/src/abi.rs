//! ABI bindings of the contracts that a trade calls or reads, one file per family. The tests compare each selector
//! and topic with that of the deployed contract.

pub mod errors;
pub mod feed;
pub mod permit2;
#[expect(clippy::too_many_arguments, reason = "the event has eight fields")]
pub mod pool_manager;
pub mod router;
pub mod token;
pub mod v3;
pub mod v4;

#[cfg(test)]
mod tests;
