//! Interfaces of the contracts that are read, one file each. A test under each holds the selectors that the
//! contracts of the real networks have.

pub mod erc20;
pub mod multicall3;
