// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// The account that payers of x402's scheme `upto` can name as their facilitator, so that several accounts can settle
// their payments, and many of them in one transaction. Only the listed signers can call it. It holds nothing, has no
// owner, and can do nothing but settle through the proxy.
contract UptoFacilitator {
    // x402's proxy for the scheme `upto`.
    address public immutable PROXY;
    mapping(address signer => bool) public isSigner;

    // The proxy's `settle` and `settleWithPermit`.
    bytes4 private constant SETTLE = 0xff11e7b4;
    bytes4 private constant SETTLE_WITH_PERMIT = 0x016c1748;

    error NotASigner();
    error NotASettlement();

    constructor(address proxy, address[] memory signers) {
        PROXY = proxy;
        for (uint256 i = 0; i < signers.length; i++) isSigner[signers[i]] = true;
    }

    // Settles one payment, and reverts as the proxy does. `settlement` is the data of the proxy's call.
    function settleOne(bytes calldata settlement) external {
        checkSender();
        (bool done, bytes memory returned) = settle(settlement);
        if (!done) {
            assembly ("memory-safe") {
                revert(add(returned, 32), mload(returned))
            }
        }
    }

    // Settles several payments. One that fails does not affect the others.
    function settleMany(bytes[] calldata settlements) external {
        checkSender();
        for (uint256 i = 0; i < settlements.length; i++) settle(settlements[i]);
    }

    function checkSender() private view {
        if (!isSigner[msg.sender]) revert NotASigner();
    }

    function settle(bytes calldata settlement) private returns (bool, bytes memory) {
        bytes4 selector = bytes4(settlement);
        if (selector != SETTLE && selector != SETTLE_WITH_PERMIT) revert NotASettlement();
        return PROXY.call(settlement);
    }
}
