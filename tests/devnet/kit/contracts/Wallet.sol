// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// EIP-1271's answers; its standard names the first only.
bytes4 constant YES = 0x1626ba7e;
bytes4 constant NO = 0xffffffff;

// Whether a key signed the hash: its signature, alone or with one more byte of any value behind it. By the
// second form a test meets what wallets do whose signatures are longer than a key's.
function isSignedBy(address owner, bytes32 hash, bytes calldata signature) pure returns (bool) {
    if (signature.length != 65 && signature.length != 66) return false;
    (bytes32 r, bytes32 s) = (bytes32(signature[:32]), bytes32(signature[32:64]));
    address signer = ecrecover(hash, uint8(signature[64]), r, s);
    return signer != address(0) && signer == owner;
}

// A wallet that is a contract (EIP-1271): one key owns it, signs for it and moves what it has.
contract Wallet {
    address public immutable owner;

    error NotOwner();

    constructor(address owner_) {
        owner = owner_;
    }

    receive() external payable {}

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return isSignedBy(owner, hash, signature) ? YES : NO;
    }

    function execute(address to, uint256 value, bytes calldata data)
        external
        returns (bytes memory)
    {
        if (msg.sender != owner) revert NotOwner();
        (bool done, bytes memory answer) = to.call{value: value}(data);
        if (!done) {
            assembly ("memory-safe") {
                revert(add(answer, 0x20), mload(answer))
            }
        }
        return answer;
    }
}
