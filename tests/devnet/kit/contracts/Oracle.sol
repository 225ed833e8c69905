// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// The price of a lending market's collateral in its loan token, as Morpho asks for it: scaled by
// 10^(36 + loan decimals - collateral decimals). Never for a public chain: anyone may set it.
contract Oracle {
    uint256 public price;

    constructor(uint256 price_) {
        price = price_;
    }

    function set(uint256 price_) external {
        price = price_;
    }
}
