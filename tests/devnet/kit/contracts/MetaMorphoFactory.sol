// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {IMorpho} from "./Blue.sol";
import {MetaMorpho} from "./MetaMorpho.sol";

interface INamed {
    function owner() external view returns (address);
    function asset() external view returns (address);
    function name() external view returns (string memory);
    function symbol() external view returns (string memory);
    function timelock() external view returns (uint256);
}

// A stand-in for the factory of MetaMorpho 1.1. Never for a public chain: anyone may register any contract.
contract MetaMorphoFactory {
    address public immutable MORPHO;
    mapping(address => bool) public isMetaMorpho;

    event CreateMetaMorpho(
        address indexed metaMorpho,
        address indexed caller,
        address initialOwner,
        uint256 initialTimelock,
        address indexed asset,
        string name,
        string symbol,
        bytes32 salt
    );

    constructor(address morpho) {
        MORPHO = morpho;
    }

    function createMetaMorpho(
        address initialOwner,
        uint256 initialTimelock,
        address asset,
        string memory name,
        string memory symbol,
        bytes32 salt
    ) external returns (address vault) {
        vault = address(
            new MetaMorpho{salt: salt}(initialOwner, IMorpho(MORPHO), initialTimelock, asset, name, symbol)
        );
        register(vault, salt);
    }

    // Adds a vault that was put at an address of its own, or one that lies.
    function register(address vault, bytes32 salt) public {
        isMetaMorpho[vault] = true;
        INamed v = INamed(vault);
        emit CreateMetaMorpho(
            vault, msg.sender, v.owner(), v.timelock(), v.asset(), v.name(), v.symbol(), salt
        );
    }
}
