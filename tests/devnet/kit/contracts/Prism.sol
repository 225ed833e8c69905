// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// Takes the place of Primer's Prism, written from its interface: facilitators on its list move any ERC-20
// by the payer's signature. Never for a public chain: anyone may change the list, the fee, and whether it
// is paused.
contract Prism {
    bytes32 public constant ERC20_PAYMENT_TYPEHASH = keccak256(
        "ERC20Payment(address token,address from,address to,uint256 value,uint256 nonce,uint256 validAfter,uint256 validBefore)"
    );
    bytes32 private constant DOMAIN_TYPEHASH = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    );
    // Half of the curve's order: of the two signatures that fit a message only the lower one counts (EIP-2).
    uint256 private constant HALF_ORDER =
        0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    uint256 private constant WHOLE = 10_000;
    uint256 public constant MAX_FEE = 500;

    // Of a payment, in hundredths of a percent.
    uint256 public feePercentage;
    bool public paused;
    bool private entered;
    mapping(address => bool) public facilitators;
    mapping(address => uint256) public collectedFees;
    // By user and token: payments of one user in one token have to be made in order.
    mapping(address => mapping(address => uint256)) public nonces;

    event ERC20Settlement(
        address indexed token,
        address indexed from,
        address indexed to,
        uint256 value,
        uint256 nonce,
        uint256 fee,
        uint256 timestamp,
        address facilitator
    );

    error AuthorizationExpired();
    error AuthorizationNotYetValid();
    error EnforcedPause();
    error FeeTooHigh();
    error InvalidAddress();
    error InvalidSignature();
    error NonceAlreadyUsed();
    error NotFacilitator();
    error ReentrancyGuardReentrantCall();
    error SafeERC20FailedOperation(address token);
    error ZeroAmount();

    // What the payer signs.
    struct Payment {
        address token;
        address from;
        address to;
        uint256 value;
        uint256 nonce;
        uint256 validAfter;
        uint256 validBefore;
    }

    // Computed anew each time: the code is put at an address of our choice, on a chain of our choice.
    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(
            abi.encode(
                DOMAIN_TYPEHASH, keccak256("Primer"), keccak256("1"), block.chainid, address(this)
            )
        );
    }

    function isFacilitator(address who) external view returns (bool) {
        return facilitators[who];
    }

    function getNonce(address user, address token) external view returns (uint256) {
        return nonces[user][token];
    }

    function addFacilitator(address who) external {
        if (who == address(0)) revert InvalidAddress();
        facilitators[who] = true;
    }

    function removeFacilitator(address who) external {
        facilitators[who] = false;
    }

    // At once: the real one makes its owner wait a day.
    function setFee(uint256 feePercentage_) external {
        if (feePercentage_ > MAX_FEE) revert FeeTooHigh();
        feePercentage = feePercentage_;
    }

    function pause() external {
        paused = true;
    }

    function unpause() external {
        paused = false;
    }

    function settleERC20(
        address token,
        address from,
        address to,
        uint256 value,
        uint256 nonce,
        uint256 validAfter,
        uint256 validBefore,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        if (!facilitators[msg.sender]) revert NotFacilitator();
        if (entered) revert ReentrancyGuardReentrantCall();
        if (paused) revert EnforcedPause();
        entered = true;
        Payment memory payment = Payment(token, from, to, value, nonce, validAfter, validBefore);
        _check(payment);
        if (!_isSigned(payment, v, r, s)) revert InvalidSignature();
        _pay(payment);
        entered = false;
    }

    function _check(Payment memory p) private {
        if (p.value == 0) revert ZeroAmount();
        if (p.to == address(0)) revert InvalidAddress();
        if (block.timestamp < p.validAfter) revert AuthorizationNotYetValid();
        if (block.timestamp > p.validBefore) revert AuthorizationExpired();
        if (p.nonce != nonces[p.from][p.token]) revert NonceAlreadyUsed();
        nonces[p.from][p.token] = p.nonce + 1;
    }

    // Signatures of keys alone: a payer with code is not asked.
    function _isSigned(Payment memory p, uint8 v, bytes32 r, bytes32 s) private view returns (bool) {
        // All fields are words, so the struct in memory is the list of them.
        bytes32 content = keccak256(abi.encode(ERC20_PAYMENT_TYPEHASH, p));
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR(), content));
        address signer = ecrecover(digest, v, r, s);
        return uint256(s) <= HALF_ORDER && signer != address(0) && signer == p.from;
    }

    function _pay(Payment memory p) private {
        uint256 fee = p.value * feePercentage / WHOLE;
        _take(p.token, p.from, p.to, p.value - fee);
        if (fee > 0) {
            _take(p.token, p.from, address(this), fee);
            collectedFees[p.token] += fee;
        }
        emit ERC20Settlement(
            p.token, p.from, p.to, p.value, p.nonce, fee, block.timestamp, msg.sender
        );
    }

    // A token may answer nothing, as some do, but not no; what it reverts with is passed on.
    function _take(address token, address from, address to, uint256 value) private {
        (bool done, bytes memory answer) = token.call(
            abi.encodeWithSignature("transferFrom(address,address,uint256)", from, to, value)
        );
        if (!done && answer.length > 0) {
            assembly ("memory-safe") {
                revert(add(answer, 0x20), mload(answer))
            }
        }
        bool agreed = answer.length == 0 ? token.code.length > 0 : abi.decode(answer, (bool));
        if (!done || !agreed) revert SafeERC20FailedOperation(token);
    }
}
