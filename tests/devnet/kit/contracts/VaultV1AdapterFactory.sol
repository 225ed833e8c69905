// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {VaultV1Adapter} from "./VaultV1Adapter.sol";

// A stand-in for the factory of MorphoVaultV1Adapter.
contract VaultV1AdapterFactory {
    mapping(address => bool) public isMorphoVaultV1Adapter;
    mapping(address => mapping(address => address)) public morphoVaultV1Adapter;

    event CreateMorphoVaultV1Adapter(
        address indexed parentVault, address indexed morphoVaultV1, address indexed morphoVaultV1Adapter
    );

    function createMorphoVaultV1Adapter(address parentVault, address morphoVaultV1)
        external
        returns (address adapter)
    {
        adapter = address(new VaultV1Adapter(parentVault, morphoVaultV1));
        isMorphoVaultV1Adapter[adapter] = true;
        morphoVaultV1Adapter[parentVault][morphoVaultV1] = adapter;
        emit CreateMorphoVaultV1Adapter(parentVault, morphoVaultV1, adapter);
    }
}
