// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

import {NonReentrant} from "./NonReentrant.sol";
import {IPermit2, UsesPermit2} from "./Permit2.sol";

// What x402's two proxies for payments by Permit2 share. The payer signs for the proxy as the spender, and for
// the payee as a witness, so that the sender of the transaction can neither change the payment nor keep it.
abstract contract Permit2Proxy is UsesPermit2, NonReentrant {
    event Settled();
    event SettledWithPermit();

    error InvalidAmount();
    error InvalidDestination();
    error InvalidOwner();
    error PaymentTooEarly();

    // A payment without the payer's signature, and what a proxy adds to it.
    struct Payment {
        uint256 amount;
        address owner;
        address to;
        uint256 validAfter;
        bytes32 witness;
        string witnessTypeString;
    }

    constructor(IPermit2 permit2) UsesPermit2(permit2) {}

    function _pay(
        IPermit2.PermitTransferFrom calldata permit,
        Payment memory p,
        bytes calldata signature
    ) internal {
        if (p.amount == 0) revert InvalidAmount();
        if (p.owner == address(0)) revert InvalidOwner();
        if (p.to == address(0)) revert InvalidDestination();
        if (block.timestamp < p.validAfter) revert PaymentTooEarly();
        PERMIT2.permitWitnessTransferFrom(
            permit,
            IPermit2.SignatureTransferDetails(p.to, p.amount),
            p.owner,
            p.witness,
            p.witnessTypeString,
            signature
        );
    }
}
