//! Uniswap v4: pool keys, StateView and V4Quoter.

alloy_sol_types::sol! {
    /// The five words that identify a pool.
    #[derive(Debug, PartialEq, Eq)]
    struct PoolKey {
        address currency0;
        address currency1;
        uint24 fee;
        int24 tickSpacing;
        address hooks;
    }

    /// A pool of a path, as the quoter and the router name it: without the currency that enters it.
    #[derive(Debug, PartialEq, Eq)]
    struct PathKey {
        address intermediateCurrency;
        uint24 fee;
        int24 tickSpacing;
        address hooks;
        bytes hookData;
    }

    #[derive(Debug)]
    interface IStateView {
        function getSlot0(bytes32 poolId) external view returns (
            uint160 sqrtPriceX96,
            int24 tick,
            uint24 protocolFee,
            uint24 lpFee
        );
        function getLiquidity(bytes32 poolId) external view returns (uint128 liquidity);
        function poolManager() external view returns (address);
    }

    #[derive(Debug)]
    interface IV4Quoter {
        struct QuoteExactSingleParams {
            PoolKey poolKey;
            bool zeroForOne;
            uint128 exactAmount;
            bytes hookData;
        }

        struct QuoteExactParams {
            address exactCurrency;
            PathKey[] path;
            uint128 exactAmount;
        }

        function quoteExactInputSingle(QuoteExactSingleParams params)
            external returns (uint256 amountOut, uint256 gasEstimate);
        function quoteExactInput(QuoteExactParams params)
            external returns (uint256 amountOut, uint256 gasEstimate);
        function quoteExactOutputSingle(QuoteExactSingleParams params)
            external returns (uint256 amountIn, uint256 gasEstimate);
    }
}
