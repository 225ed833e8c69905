//! ABI bindings of ERC-20 and Multicall3, one file each. Tests compare their selectors with those of the ERC-20
//! standard and of the deployed Multicall3 contract.

pub mod erc20;
pub mod multicall3;
