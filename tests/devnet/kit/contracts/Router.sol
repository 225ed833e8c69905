// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// Takes the place of Universal Router 2.1.1 and 2.1.2, of which no package exists: their calldata for a
// single Uniswap v4 swap, their minimum price and their errors, over the real PoolManager and Permit2.
// What it does not know it refuses by name. One difference: calldata of older routers is read by the
// compiler's decoder, and the real ones have one of their own.

struct PoolKey {
    address currency0;
    address currency1;
    uint24 fee;
    int24 tickSpacing;
    address hooks;
}

struct SwapParams {
    bool zeroForOne;
    int256 amountSpecified;
    uint160 sqrtPriceLimitX96;
}

interface IPoolManager {
    function unlock(bytes calldata data) external returns (bytes memory);
    function swap(PoolKey memory key, SwapParams memory params, bytes calldata hookData)
        external
        returns (int256);
    function sync(address currency) external;
    function settle() external payable returns (uint256);
    function take(address currency, address to, uint256 amount) external;
    function exttload(bytes32 slot) external view returns (bytes32);
}

interface IPermit2 {
    struct PermitDetails {
        address token;
        uint160 amount;
        uint48 expiration;
        uint48 nonce;
    }

    struct PermitSingle {
        PermitDetails details;
        address spender;
        uint256 sigDeadline;
    }

    function permit(address owner, PermitSingle memory permitSingle, bytes calldata signature) external;
    function transferFrom(address from, address to, uint160 amount, address token) external;
}

interface IToken {
    function balanceOf(address owner) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
}

contract Router {
    struct ExactInputSingleParams {
        PoolKey poolKey;
        bool zeroForOne;
        uint128 amountIn;
        uint128 amountOutMinimum;
        uint256 minHopPriceX36;
        bytes hookData;
    }

    error TransactionDeadlinePassed();
    error LengthMismatch();
    error InvalidCommandType(uint256 commandType);
    error ExecutionFailed(uint256 commandIndex, bytes message);
    error UnsupportedAction(uint256 action);
    error NotPoolManager();
    error InsufficientToken();
    error InsufficientETH();
    error V4TooLittleReceived(uint256 minAmountOutReceived, uint256 amountReceived);
    error V4TooMuchRequested(uint256 maxAmountInRequested, uint256 amountRequested);
    error V4TooLittleReceivedPerHopSingle(uint256 minPrice, uint256 price);

    uint256 private constant SWEEP = 0x04;
    uint256 private constant PERMIT2_PERMIT = 0x0a;
    uint256 private constant V4_SWAP = 0x10;
    uint256 private constant MAY_REVERT = 0x80;

    uint256 private constant SWAP_EXACT_IN_SINGLE = 0x06;
    uint256 private constant SETTLE_ALL = 0x0c;
    uint256 private constant TAKE_ALL = 0x0f;

    // One inside the bounds of the price that the PoolManager accepts: no limit of ours.
    uint160 private constant LOWEST = 4295128740;
    uint160 private constant HIGHEST = 1461446703485210103287273052203988822378723970341;

    IPoolManager private immutable poolManager;
    IPermit2 private immutable permit2;
    address private caller;

    constructor(IPoolManager poolManager_, IPermit2 permit2_) {
        poolManager = poolManager_;
        permit2 = permit2_;
    }

    receive() external payable {}

    function execute(bytes calldata commands, bytes[] calldata inputs, uint256 deadline) external payable {
        if (block.timestamp > deadline) revert TransactionDeadlinePassed();
        if (commands.length != inputs.length) revert LengthMismatch();
        caller = msg.sender;
        for (uint256 i; i < commands.length; i++) {
            uint256 command = uint8(commands[i]);
            uint256 kind = command & 0x7f;
            if (kind == V4_SWAP) poolManager.unlock(inputs[i]);
            else if (kind == PERMIT2_PERMIT) _permit(i, inputs[i], command & MAY_REVERT != 0);
            else if (kind == SWEEP) _sweep(inputs[i]);
            else revert InvalidCommandType(kind);
        }
        caller = address(0);
    }

    function unlockCallback(bytes calldata data) external returns (bytes memory) {
        if (msg.sender != address(poolManager)) revert NotPoolManager();
        (bytes memory actions, bytes[] memory params) = abi.decode(data, (bytes, bytes[]));
        for (uint256 i; i < actions.length; i++) {
            uint256 action = uint8(actions[i]);
            if (action == SWAP_EXACT_IN_SINGLE) _swap(abi.decode(params[i], (ExactInputSingleParams)));
            else if (action == SETTLE_ALL) _settleAll(params[i]);
            else if (action == TAKE_ALL) _takeAll(params[i]);
            else revert UnsupportedAction(action);
        }
        return "";
    }

    function _permit(uint256 index, bytes calldata input, bool mayRevert) private {
        (IPermit2.PermitSingle memory terms, bytes memory signature) =
            abi.decode(input, (IPermit2.PermitSingle, bytes));
        try permit2.permit(msg.sender, terms, signature) {}
        catch (bytes memory reason) {
            if (!mayRevert) revert ExecutionFailed(index, reason);
        }
    }

    function _sweep(bytes calldata input) private {
        (address token, address to, uint256 minimum) = abi.decode(input, (address, address, uint256));
        address recipient = to == address(1) ? msg.sender : to;
        if (token == address(0)) {
            uint256 coin = address(this).balance;
            if (coin < minimum) revert InsufficientETH();
            (bool sent,) = recipient.call{value: coin}("");
            require(sent, "ETH_TRANSFER_FAILED");
        } else {
            uint256 held = IToken(token).balanceOf(address(this));
            if (held < minimum) revert InsufficientToken();
            if (held > 0) IToken(token).transfer(recipient, held);
        }
    }

    function _swap(ExactInputSingleParams memory p) private {
        int256 delta = poolManager.swap(
            p.poolKey,
            SwapParams(p.zeroForOne, -int256(uint256(p.amountIn)), p.zeroForOne ? LOWEST : HIGHEST),
            p.hookData
        );
        // The upper half is what happened to currency0, the lower half to currency1.
        int128 received = p.zeroForOne ? int128(delta) : int128(delta >> 128);
        uint256 amountOut = uint256(int256(received));
        if (amountOut < p.amountOutMinimum) revert V4TooLittleReceived(p.amountOutMinimum, amountOut);
        if (p.minHopPriceX36 == 0) return;
        uint256 price = amountOut * 1e36 / p.amountIn;
        if (price < p.minHopPriceX36) revert V4TooLittleReceivedPerHopSingle(p.minHopPriceX36, price);
    }

    function _settleAll(bytes memory params) private {
        (address currency, uint256 most) = abi.decode(params, (address, uint256));
        int256 delta = _delta(currency);
        uint256 owed = delta < 0 ? uint256(-delta) : 0;
        if (owed > most) revert V4TooMuchRequested(most, owed);
        if (owed == 0) return;
        poolManager.sync(currency);
        if (currency == address(0)) {
            poolManager.settle{value: owed}();
        } else {
            permit2.transferFrom(caller, address(poolManager), uint160(owed), currency);
            poolManager.settle();
        }
    }

    function _takeAll(bytes memory params) private {
        (address currency, uint256 least) = abi.decode(params, (address, uint256));
        int256 delta = _delta(currency);
        uint256 due = delta > 0 ? uint256(delta) : 0;
        if (due < least) revert V4TooLittleReceived(least, due);
        if (due > 0) poolManager.take(currency, caller, due);
    }

    // What the PoolManager owes us, or we it, in this transaction.
    function _delta(address currency) private view returns (int256) {
        return int256(uint256(poolManager.exttload(keccak256(abi.encode(address(this), currency)))));
    }
}
