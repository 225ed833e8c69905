// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {Wallet} from "./Wallet.sol";

// Makes wallets at addresses that are known before (CREATE2), so that one can be paid to, and can sign,
// before it is there.
contract WalletFactory {
    event WalletCreated(address indexed wallet, address indexed owner, uint256 salt);

    // Reverts when the wallet is there already.
    function create(address owner, uint256 salt) external returns (address wallet) {
        wallet = address(new Wallet{salt: bytes32(salt)}(owner));
        emit WalletCreated(wallet, owner, salt);
    }

    function addressOf(address owner, uint256 salt) external view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(Wallet).creationCode, abi.encode(owner)));
        bytes memory recipe = abi.encodePacked(bytes1(0xff), address(this), salt, code);
        return address(uint160(uint256(keccak256(recipe))));
    }
}
