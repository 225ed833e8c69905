//! ABI bindings of the contracts that we call, one file each. Each file's test compares the selectors with
//! those of the deployed contracts.

pub mod erc20;
pub mod multicall3;
