// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {IMorpho} from "./Blue.sol";
import {MarketAdapter} from "./MarketAdapter.sol";

// A stand-in for the factory of MorphoMarketV1AdapterV2.
contract MarketAdapterFactory {
    IMorpho public immutable morpho;
    address public immutable adaptiveCurveIrm;
    mapping(address => bool) public isMorphoMarketV1AdapterV2;
    mapping(address => address) public morphoMarketV1AdapterV2;

    event CreateMorphoMarketV1AdapterV2(
        address indexed parentVault, address indexed morphoMarketV1AdapterV2
    );

    constructor(IMorpho morpho_, address irm) {
        (morpho, adaptiveCurveIrm) = (morpho_, irm);
    }

    function createMorphoMarketV1AdapterV2(address parentVault) external returns (address adapter) {
        adapter = address(new MarketAdapter(parentVault, morpho, adaptiveCurveIrm));
        isMorphoMarketV1AdapterV2[adapter] = true;
        morphoMarketV1AdapterV2[parentVault] = adapter;
        emit CreateMorphoMarketV1AdapterV2(parentVault, adapter);
    }
}
