// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

interface IDepositCollector {
    // Moves the payer's tokens to the calling settlement contract.
    function collect(
        address payer,
        address token,
        uint256 amount,
        bytes32 channelId,
        bytes calldata collectorData
    ) external;
}

error SafeERC20FailedOperation(address token);

// Sends tokens. A token may answer nothing, as some do, but not no; what it reverts with is passed on.
function sendToken(address token, address to, uint256 value) {
    (bool done, bytes memory answer) =
        token.call(abi.encodeWithSignature("transfer(address,uint256)", to, value));
    if (!done && answer.length > 0) {
        assembly ("memory-safe") {
            revert(add(answer, 0x20), mload(answer))
        }
    }
    bool agreed = answer.length == 0 ? token.code.length > 0 : abi.decode(answer, (bool));
    if (!done || !agreed) revert SafeERC20FailedOperation(token);
}

// What x402's two collectors share: they serve one settlement contract, because any other caller could name
// another payer's signature.
abstract contract DepositCollector is IDepositCollector {
    address public immutable x402BatchSettlement;

    error InvalidX402BatchSettlementAddress();
    error OnlyX402BatchSettlement();

    modifier onlyX402BatchSettlement() {
        if (msg.sender != x402BatchSettlement) revert OnlyX402BatchSettlement();
        _;
    }

    constructor(address settlement) {
        if (settlement == address(0)) revert InvalidX402BatchSettlementAddress();
        x402BatchSettlement = settlement;
    }
}
