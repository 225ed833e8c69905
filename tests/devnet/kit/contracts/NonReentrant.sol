// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// A lock for the functions of one contract. It is in transient storage (EIP-1153), as in the real contracts.
abstract contract NonReentrant {
    bool private transient entered;

    error ReentrancyGuardReentrantCall();

    modifier nonReentrant() {
        if (entered) revert ReentrancyGuardReentrantCall();
        entered = true;
        _;
        entered = false;
    }
}
