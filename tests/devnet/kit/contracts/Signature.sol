// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// Signatures of keys and of contracts, with the errors of OpenZeppelin's ECDSA library.

error ECDSAInvalidSignature();
error ECDSAInvalidSignatureLength(uint256 length);
error ECDSAInvalidSignatureS(bytes32 s);

interface IContractSigner {
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4);
}

// Half of the curve's order: of the two signatures that fit a message only the lower one counts (EIP-2).
uint256 constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

// The key that signed; reverts unless the signature is one of a key.
function recoverKey(bytes32 digest, bytes calldata signature) pure returns (address signer) {
    if (signature.length != 65) revert ECDSAInvalidSignatureLength(signature.length);
    bytes32 s = bytes32(signature[32:64]);
    if (uint256(s) > HALF_ORDER) revert ECDSAInvalidSignatureS(s);
    signer = ecrecover(digest, uint8(signature[64]), bytes32(signature[:32]), s);
    if (signer == address(0)) revert ECDSAInvalidSignature();
}

// Whether a key or a contract (EIP-1271) signed. A signer with code is asked; no key is tried then.
function isSigned(address signer, bytes32 digest, bytes calldata signature) view returns (bool) {
    if (signer.code.length > 0) return contractAgrees(signer, digest, signature);
    if (signature.length != 65) return false;
    bytes32 s = bytes32(signature[32:64]);
    address key = ecrecover(digest, uint8(signature[64]), bytes32(signature[:32]), s);
    return uint256(s) <= HALF_ORDER && key != address(0) && key == signer;
}

function contractAgrees(address signer, bytes32 digest, bytes calldata signature)
    view
    returns (bool)
{
    (bool answered, bytes memory answer) =
        signer.staticcall(abi.encodeCall(IContractSigner.isValidSignature, (digest, signature)));
    return answered && answer.length >= 32
        && abi.decode(answer, (bytes32)) == bytes32(IContractSigner.isValidSignature.selector);
}
