// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {IAsset} from "./Blue.sol";

interface IParent {
    function asset() external view returns (address);
    function allocation(bytes32 id) external view returns (uint256);
}

interface IVaultV1 {
    function deposit(uint256 assets, address receiver) external returns (uint256);
    function withdraw(uint256 assets, address receiver, address owner) external returns (uint256);
    function balanceOf(address owner) external view returns (uint256);
    function previewRedeem(uint256 shares) external view returns (uint256);
}

// A stand-in for MorphoVaultV1Adapter: holds the shares of a Vault V2 in a MetaMorpho vault.
contract VaultV1Adapter {
    address public immutable factory;
    address public immutable parentVault;
    address public immutable morphoVaultV1;
    bytes32 public immutable adapterId;

    error NotAuthorized();
    error InvalidData();

    constructor(address parentVault_, address morphoVaultV1_) {
        (factory, parentVault, morphoVaultV1) = (msg.sender, parentVault_, morphoVaultV1_);
        adapterId = keccak256(abi.encode("this", address(this)));
        address asset = IParent(parentVault_).asset();
        IAsset(asset).approve(morphoVaultV1_, type(uint256).max);
        IAsset(asset).approve(parentVault_, type(uint256).max);
    }

    function allocate(bytes memory data, uint256 assets, bytes4, address)
        external
        returns (bytes32[] memory, int256)
    {
        _check(data);
        if (assets > 0) IVaultV1(morphoVaultV1).deposit(assets, address(this));
        return (ids(), _change());
    }

    function deallocate(bytes memory data, uint256 assets, bytes4, address)
        external
        returns (bytes32[] memory, int256)
    {
        _check(data);
        if (assets > 0) IVaultV1(morphoVaultV1).withdraw(assets, address(this), address(this));
        return (ids(), _change());
    }

    function realAssets() public view returns (uint256) {
        return IVaultV1(morphoVaultV1).previewRedeem(IVaultV1(morphoVaultV1).balanceOf(address(this)));
    }

    function ids() public view returns (bytes32[] memory all) {
        all = new bytes32[](1);
        all[0] = adapterId;
    }

    function _check(bytes memory data) private view {
        if (msg.sender != parentVault) revert NotAuthorized();
        if (data.length != 0) revert InvalidData();
    }

    function _change() private view returns (int256) {
        return int256(realAssets()) - int256(IParent(parentVault).allocation(adapterId));
    }
}
