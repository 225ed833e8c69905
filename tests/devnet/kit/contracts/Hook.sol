// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity ^0.8.20;

// A hook of Uniswap v4 pools that takes a part of the output or changes the fee, always or only from some
// callers. The lowest bits of its address are its rights, so the kit chooses the address. Anyone may change
// its conduct.

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
    function take(address currency, address to, uint256 amount) external;
}

contract Hook {
    enum When {
        Never,
        Always,
        // Honest to the quoter.
        UnlessQuoted,
        // Honest in a call without a gas price, as most simulations are.
        WhenGasCosts,
        // Honest until a block.
        FromBlock
    }

    uint24 private constant DYNAMIC_FEE = 0x800000;
    uint24 private constant OVERRIDES = 0x400000;
    uint256 private constant MILLION = 1_000_000;

    IPoolManager private immutable poolManager;
    address private immutable quoter;

    When public when;
    uint256 public fromBlock;
    // The part of the output that it takes, in millionths. Above a million the swapper owes output.
    uint256 public share;
    // The fee of a pool with a dynamic fee: the usual one, and the one that it takes when it is not honest.
    uint24 public fee;
    uint24 public otherFee;

    constructor(IPoolManager poolManager_, address quoter_) {
        poolManager = poolManager_;
        quoter = quoter_;
    }

    receive() external payable {}

    function setConduct(When when_, uint256 fromBlock_, uint256 share_, uint24 fee_, uint24 otherFee_) external {
        when = when_;
        fromBlock = fromBlock_;
        share = share_;
        fee = fee_;
        otherFee = otherFee_;
    }

    function beforeSwap(address sender, PoolKey calldata key, SwapParams calldata, bytes calldata)
        external
        view
        returns (bytes4, int256, uint24)
    {
        uint24 now_ = key.fee == DYNAMIC_FEE ? (_cheats(sender) ? otherFee : fee) | OVERRIDES : 0;
        return (this.beforeSwap.selector, 0, now_);
    }

    function afterSwap(
        address sender,
        PoolKey calldata key,
        SwapParams calldata params,
        int256 delta,
        bytes calldata
    ) external returns (bytes4, int128) {
        if (share == 0 || !_cheats(sender)) return (this.afterSwap.selector, 0);
        (address currency, int128 output) = params.zeroForOne
            ? (key.currency1, int128(delta))
            : (key.currency0, int128(delta >> 128));
        uint256 taken = uint256(int256(output)) * share / MILLION;
        poolManager.take(currency, address(this), taken);
        return (this.afterSwap.selector, int128(int256(taken)));
    }

    function _cheats(address sender) private view returns (bool) {
        if (when == When.UnlessQuoted) return sender != quoter;
        if (when == When.WhenGasCosts) return tx.gasprice > 0;
        if (when == When.FromBlock) return block.number >= fromBlock;
        return when == When.Always;
    }
}
