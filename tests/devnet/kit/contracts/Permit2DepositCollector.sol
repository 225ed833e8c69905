// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {DepositCollector} from "./DepositCollector.sol";
import {IPermit2, UsesPermit2} from "./Permit2.sol";

// Takes the place of x402's Permit2DepositCollector: pays a deposit by Permit2, with the channel as the witness
// of the payer's signature. The payer may add a permit of the token (EIP-2612), which allows Permit2.
contract Permit2DepositCollector is DepositCollector, UsesPermit2 {
    bytes32 public constant DEPOSIT_WITNESS_TYPEHASH = keccak256("DepositWitness(bytes32 channelId)");
    // EIP-712 sorts the types that a struct uses by name.
    string public constant DEPOSIT_WITNESS_TYPE_STRING =
        "DepositWitness witness)DepositWitness(bytes32 channelId)TokenPermissions(address token,uint256 amount)";

    constructor(address settlement, IPermit2 permit2)
        DepositCollector(settlement)
        UsesPermit2(permit2)
    {}

    function collect(
        address payer,
        address token,
        uint256 amount,
        bytes32 channelId,
        bytes calldata collectorData
    ) external onlyX402BatchSettlement {
        (uint256 nonce, uint256 deadline, bytes memory signature, bytes memory permit2612) =
            abi.decode(collectorData, (uint256, uint256, bytes, bytes));
        if (permit2612.length > 0) _permit(token, payer, amount, _decode(permit2612));
        PERMIT2.permitWitnessTransferFrom(
            IPermit2.PermitTransferFrom(IPermit2.TokenPermissions(token, amount), nonce, deadline),
            IPermit2.SignatureTransferDetails(x402BatchSettlement, amount),
            payer,
            keccak256(abi.encode(DEPOSIT_WITNESS_TYPEHASH, channelId)),
            DEPOSIT_WITNESS_TYPE_STRING,
            signature
        );
    }

    // Here v stands before r and s, unlike in the proxies.
    function _decode(bytes memory permit2612) private pure returns (EIP2612Permit memory p) {
        (p.value, p.deadline, p.v, p.r, p.s) =
            abi.decode(permit2612, (uint256, uint256, uint8, bytes32, bytes32));
    }
}
