// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {DepositCollector, sendToken} from "./DepositCollector.sol";

interface IErc3009 {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}

// Takes the place of x402's ERC3009DepositCollector: pays a deposit with the payer's authorization (EIP-3009),
// whose nonce names the channel. The payee of the authorization is this contract, which passes the tokens on.
contract Erc3009DepositCollector is DepositCollector {
    constructor(address settlement) DepositCollector(settlement) {}

    function collect(
        address payer,
        address token,
        uint256 amount,
        bytes32 channelId,
        bytes calldata collectorData
    ) external onlyX402BatchSettlement {
        (uint256 validAfter, uint256 validBefore, uint256 salt, bytes memory signature) =
            abi.decode(collectorData, (uint256, uint256, uint256, bytes));
        bytes32 nonce = keccak256(abi.encode(channelId, salt));
        IErc3009(token).receiveWithAuthorization(
            payer, address(this), amount, validAfter, validBefore, nonce, signature
        );
        sendToken(token, x402BatchSettlement, amount);
    }
}
