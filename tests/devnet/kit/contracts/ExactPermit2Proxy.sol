// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {IPermit2} from "./Permit2.sol";
import {Permit2Proxy} from "./Permit2Proxy.sol";

// Takes the place of x402's proxy for exact payments by Permit2, written from its interface: any sender moves
// the whole permitted amount.
contract ExactPermit2Proxy is Permit2Proxy {
    struct Witness {
        address to;
        uint256 validAfter;
    }

    bytes32 public constant WITNESS_TYPEHASH = keccak256("Witness(address to,uint256 validAfter)");
    // Permit2 puts it behind "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,
    // uint256 nonce,uint256 deadline,".
    string public constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,uint256 validAfter)";

    constructor(IPermit2 permit2) Permit2Proxy(permit2) {}

    function settle(
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external nonReentrant {
        _settle(permit, owner, witness, signature);
        emit Settled();
    }

    function settleWithPermit(
        EIP2612Permit calldata permit2612,
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external nonReentrant {
        _permit(permit.permitted.token, owner, permit.permitted.amount, permit2612);
        _settle(permit, owner, witness, signature);
        emit SettledWithPermit();
    }

    function _settle(
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) private {
        Payment memory payment = Payment({
            amount: permit.permitted.amount,
            owner: owner,
            to: witness.to,
            validAfter: witness.validAfter,
            witness: keccak256(abi.encode(WITNESS_TYPEHASH, witness)),
            witnessTypeString: WITNESS_TYPE_STRING
        });
        _pay(permit, payment, signature);
    }
}
