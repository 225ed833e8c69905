// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// Emits the events of vaults and of Morpho Blue in the name of any account, and does nothing.
contract Forger {
    event Deposit(address indexed sender, address indexed owner, uint256 assets, uint256 shares);
    event Supply(
        bytes32 indexed id, address indexed caller, address indexed onBehalf, uint256 assets, uint256 shares
    );

    function forgeDeposit(address owner, uint256 assets, uint256 shares) external {
        emit Deposit(owner, owner, assets, shares);
    }

    function forgeSupply(bytes32 id, address owner, uint256 assets, uint256 shares) external {
        emit Supply(id, owner, owner, assets, shares);
    }
}
