// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {IAsset, SafeToken, WAD} from "./Blue.sol";

interface IParent {
    function asset() external view returns (address);
    function allocation(bytes32 id) external view returns (uint256);
}

// An adapter of a Vault V2 that no official factory made: a leveraged one ("Box"), or a hostile one. It keeps
// what it is given. Never for a public chain: anyone may set what it does.
contract OddAdapter {
    address public immutable parentVault;
    address public immutable asset;
    bytes32 public immutable adapterId;

    // What it reports, as a part of what it was given times 10^18, and what multiplies a change of that.
    uint256 public part = WAD;
    uint256 public leverage = 1;
    uint256 public given;
    bool public refuses;

    error BoxIsIlliquid();

    constructor(address parentVault_) {
        parentVault = parentVault_;
        asset = IParent(parentVault_).asset();
        adapterId = keccak256(abi.encode("this", address(this)));
        IAsset(asset).approve(parentVault_, type(uint256).max);
    }

    function setPart(uint256 part_) external {
        part = part_;
    }

    function setLeverage(uint256 leverage_) external {
        leverage = leverage_;
    }

    // From now on nothing comes back.
    function setRefuses(bool refuses_) external {
        refuses = refuses_;
    }

    // Takes the money away.
    function steal(address to, uint256 assets) external {
        SafeToken.give(asset, to, assets);
    }

    function allocate(bytes memory, uint256 assets, bytes4, address)
        external
        returns (bytes32[] memory, int256)
    {
        given += assets;
        return (ids(), _change());
    }

    function deallocate(bytes memory, uint256 assets, bytes4, address)
        external
        returns (bytes32[] memory, int256)
    {
        if (refuses || assets > IAsset(asset).balanceOf(address(this))) revert BoxIsIlliquid();
        given -= assets < given ? assets : given;
        return (ids(), _change());
    }

    function realAssets() public view returns (uint256) {
        if (part >= WAD) return given + given * (part - WAD) * leverage / WAD;
        uint256 loss = given * (WAD - part) * leverage / WAD;
        return loss < given ? given - loss : 0;
    }

    function ids() public view returns (bytes32[] memory all) {
        all = new bytes32[](1);
        all[0] = adapterId;
    }

    function _change() private view returns (int256) {
        return int256(realAssets()) - int256(IParent(parentVault).allocation(adapterId));
    }
}
