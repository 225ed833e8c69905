// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {VaultV2} from "./VaultV2.sol";

// A stand-in for the factory of Vault V2. Never for a public chain: anyone may register any contract.
contract VaultV2Factory {
    mapping(address => bool) public isVaultV2;
    mapping(address => mapping(address => mapping(bytes32 => address))) public vaultV2;

    event CreateVaultV2(
        address indexed owner, address indexed asset, bytes32 salt, address indexed newVaultV2
    );

    function createVaultV2(address owner, address asset, bytes32 salt) external returns (address vault) {
        vault = address(new VaultV2{salt: salt}(owner, asset));
        register(owner, asset, salt, vault);
    }

    // Adds a vault that was put at an address of its own, or one that lies.
    function register(address owner, address asset, bytes32 salt, address vault) public {
        isVaultV2[vault] = true;
        vaultV2[owner][asset][salt] = vault;
        emit CreateVaultV2(owner, asset, salt, vault);
    }
}
