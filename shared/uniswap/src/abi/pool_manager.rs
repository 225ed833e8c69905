//! The swap event of v4's PoolManager.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IPoolManager {
        event Swap(
            bytes32 indexed id,
            address indexed sender,
            int128 amount0,
            int128 amount1,
            uint160 sqrtPriceX96,
            uint128 liquidity,
            int24 tick,
            uint24 fee
        );
    }
}
