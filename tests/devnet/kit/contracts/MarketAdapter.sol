// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {Blue, IAsset, IMorpho, MarketParams} from "./Blue.sol";

interface IParent {
    function asset() external view returns (address);
    function allocation(bytes32 id) external view returns (uint256);
}

// A stand-in for MorphoMarketV1AdapterV2: holds the positions of a Vault V2 in markets of Morpho Blue.
contract MarketAdapter {
    address public immutable factory;
    address public immutable parentVault;
    address public immutable asset;
    IMorpho public immutable morpho;
    address public immutable adaptiveCurveIrm;
    bytes32 public immutable adapterId;

    bytes32[] public marketIds;
    mapping(bytes32 => uint256) public supplyShares;

    error NotAuthorized();
    error LoanAssetMismatch();
    error IrmMismatch();

    constructor(address parentVault_, IMorpho morpho_, address irm) {
        (factory, parentVault, morpho, adaptiveCurveIrm) = (msg.sender, parentVault_, morpho_, irm);
        asset = IParent(parentVault_).asset();
        adapterId = keccak256(abi.encode("this", address(this)));
        IAsset(asset).approve(address(morpho_), type(uint256).max);
        IAsset(asset).approve(parentVault_, type(uint256).max);
    }

    function allocate(bytes memory data, uint256 assets, bytes4, address)
        external
        returns (bytes32[] memory, int256)
    {
        MarketParams memory params = _checked(data);
        bytes32 id = Blue.id(params);
        if (assets > 0) {
            (, uint256 shares) = morpho.supply(params, assets, 0, address(this), "");
            if (supplyShares[id] == 0) marketIds.push(id);
            supplyShares[id] += shares;
        }
        return (ids(params), _change(params));
    }

    function deallocate(bytes memory data, uint256 assets, bytes4, address)
        external
        returns (bytes32[] memory, int256)
    {
        MarketParams memory params = _checked(data);
        bytes32 id = Blue.id(params);
        if (assets > 0) {
            (, uint256 shares) = morpho.withdraw(params, assets, 0, address(this), address(this));
            supplyShares[id] -= shares;
            if (supplyShares[id] == 0) _forget(id);
        }
        return (ids(params), _change(params));
    }

    function marketIdsLength() external view returns (uint256) {
        return marketIds.length;
    }

    function expectedSupplyAssets(bytes32 id) public view returns (uint256) {
        return Blue.worth(Blue.expected(morpho, id), supplyShares[id]);
    }

    function realAssets() external view returns (uint256 assets) {
        for (uint256 i = 0; i < marketIds.length; i++) assets += expectedSupplyAssets(marketIds[i]);
    }

    function ids(MarketParams memory params) public view returns (bytes32[] memory all) {
        all = new bytes32[](3);
        all[0] = adapterId;
        all[1] = keccak256(abi.encode("collateralToken", params.collateralToken));
        all[2] = _marketId(params);
    }

    function _marketId(MarketParams memory params) private view returns (bytes32) {
        return keccak256(abi.encode("this/marketParams", address(this), params));
    }

    function _checked(bytes memory data) private view returns (MarketParams memory params) {
        if (msg.sender != parentVault) revert NotAuthorized();
        params = abi.decode(data, (MarketParams));
        if (params.loanToken != asset) revert LoanAssetMismatch();
        if (params.irm != adaptiveCurveIrm) revert IrmMismatch();
    }

    function _change(MarketParams memory params) private view returns (int256) {
        uint256 before = IParent(parentVault).allocation(_marketId(params));
        return int256(expectedSupplyAssets(Blue.id(params))) - int256(before);
    }

    function _forget(bytes32 id) private {
        for (uint256 i = 0; i < marketIds.length; i++) {
            if (marketIds[i] != id) continue;
            marketIds[i] = marketIds[marketIds.length - 1];
            marketIds.pop();
            return;
        }
    }
}
