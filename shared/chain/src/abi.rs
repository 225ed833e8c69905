//! ABI bindings of ERC-20 and Multicall3, one file each. The tests compare them with the selectors of the standard
//! and of the deployed contract.

pub mod erc20;
pub mod multicall3;
