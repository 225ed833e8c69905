// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// Takes the place of x402's proxy for exact payments by Permit2, written from its interface: the payer
// signs for this contract as the spender, and for the payee as a witness, so that whoever carries the
// payment out can neither change it nor keep it. Its settleWithPermit is left out.

interface IPermit2 {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    function permitWitnessTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}

contract ExactPermit2Proxy {
    struct Witness {
        address to;
        uint256 validAfter;
    }

    bytes32 public constant WITNESS_TYPEHASH = keccak256("Witness(address to,uint256 validAfter)");
    // Permit2 puts it behind "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,
    // uint256 nonce,uint256 deadline,".
    string public constant WITNESS_TYPE_STRING =
        "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,uint256 validAfter)";

    IPermit2 public immutable PERMIT2;
    bool private entered;

    event Settled();

    error InvalidAmount();
    error InvalidDestination();
    error InvalidOwner();
    error InvalidPermit2Address();
    error PaymentTooEarly();
    error ReentrancyGuardReentrantCall();

    constructor(IPermit2 permit2) {
        if (address(permit2) == address(0)) revert InvalidPermit2Address();
        PERMIT2 = permit2;
    }

    function settle(
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) external {
        if (entered) revert ReentrancyGuardReentrantCall();
        entered = true;
        _settle(permit, owner, witness, signature);
        entered = false;
    }

    function _settle(
        IPermit2.PermitTransferFrom calldata permit,
        address owner,
        Witness calldata witness,
        bytes calldata signature
    ) private {
        uint256 amount = permit.permitted.amount;
        if (amount == 0) revert InvalidAmount();
        if (owner == address(0)) revert InvalidOwner();
        if (witness.to == address(0)) revert InvalidDestination();
        if (block.timestamp < witness.validAfter) revert PaymentTooEarly();
        PERMIT2.permitWitnessTransferFrom(
            permit,
            IPermit2.SignatureTransferDetails(witness.to, amount),
            owner,
            keccak256(abi.encode(WITNESS_TYPEHASH, witness.to, witness.validAfter)),
            WITNESS_TYPE_STRING,
            signature
        );
        emit Settled();
    }
}
