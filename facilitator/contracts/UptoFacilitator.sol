// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// The account that payers of x402's scheme `upto` can name as their facilitator, so that several accounts can settle
// their payments, and many of them in one transaction. Only the listed signers can call it. It holds nothing, has no
// owner, and can do nothing but settle through the proxy.
//
// Its address depends on this code. Never change it: payers have signed for the addresses of contracts that are in use.
contract UptoFacilitator {
    // The data of a call of the proxy, and the most gas that it may use.
    struct Settlement {
        uint256 gasLimit;
        bytes data;
    }

    // x402's proxy for the scheme `upto`.
    address public immutable PROXY;
    mapping(address signer => bool) public isSigner;

    // The proxy's `settle` and `settleWithPermit`.
    bytes4 private constant SETTLE = 0xff11e7b4;
    bytes4 private constant SETTLE_WITH_PERMIT = 0x016c1748;
    // Gas that stays for the loop itself.
    uint256 private constant RESERVE = 5000;

    error NotASigner();
    error NotASettlement();

    constructor(address proxy, address[] memory signers) {
        PROXY = proxy;
        for (uint256 i = 0; i < signers.length; i++) isSigner[signers[i]] = true;
    }

    // Settles one payment, and reverts as the proxy does. `data` is the data of the proxy's call.
    function settleOne(bytes calldata data) external {
        checkSender();
        checkSettlement(data);
        (bool done, bytes memory returned) = PROXY.call(data);
        if (!done) {
            assembly ("memory-safe") {
                revert(add(returned, 32), mload(returned))
            }
        }
    }

    // Settles several payments. One that fails does not affect the others, however much gas it uses and data it returns.
    // Stops when the gas left does not suffice for the next.
    function settleMany(Settlement[] calldata settlements) external {
        checkSender();
        address proxy = PROXY;
        for (uint256 i = 0; i < settlements.length; i++) {
            uint256 gasLimit = settlements[i].gasLimit;
            bytes calldata data = settlements[i].data;
            checkSettlement(data);
            // A call gets at most 63/64 of the gas left (EIP-150).
            if (gasleft() < RESERVE || gasleft() - RESERVE < gasLimit + gasLimit / 63) break;
            assembly ("memory-safe") {
                let free := mload(0x40)
                calldatacopy(free, data.offset, data.length)
                pop(call(gasLimit, proxy, 0, free, data.length, 0, 0))
            }
        }
    }

    function checkSender() private view {
        if (!isSigner[msg.sender]) revert NotASigner();
    }

    function checkSettlement(bytes calldata data) private pure {
        bytes4 selector = bytes4(data);
        if (selector != SETTLE && selector != SETTLE_WITH_PERMIT) revert NotASettlement();
    }
}
