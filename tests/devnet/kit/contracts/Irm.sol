// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {Market, MarketParams, Blue, WAD} from "./Blue.sol";

// An interest model with a rate that a test sets for a market. Until then the yearly rate is the borrowed share
// of the deposits, as in Morpho's own simplest model. Never for a public chain: anyone may set it.
contract Irm {
    mapping(bytes32 => bool) public isSet;
    mapping(bytes32 => uint256) public rates;

    // Per second, times 10^18.
    function set(bytes32 market, uint256 rate) external {
        isSet[market] = true;
        rates[market] = rate;
    }

    function borrowRate(MarketParams memory params, Market memory market) external view returns (uint256) {
        return borrowRateView(params, market);
    }

    function borrowRateView(MarketParams memory params, Market memory market)
        public
        view
        returns (uint256)
    {
        bytes32 id = Blue.id(params);
        if (isSet[id]) return rates[id];
        if (market.totalSupplyAssets == 0) return 0;
        return uint256(market.totalBorrowAssets) * WAD / market.totalSupplyAssets / 365 days;
    }
}
