//! Uniswap v3: factory, pools, QuoterV2 and SwapRouter02.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IV3PoolEvents {
        event Swap(
            address indexed sender,
            address indexed recipient,
            int256 amount0,
            int256 amount1,
            uint160 sqrtPriceX96,
            uint128 liquidity,
            int24 tick
        );
    }
}

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IV3Factory {
        function getPool(address tokenA, address tokenB, uint24 fee) external view returns (address pool);
    }

    #[derive(Debug)]
    interface IV3Pool {
        function slot0() external view returns (
            uint160 sqrtPriceX96,
            int24 tick,
            uint16 observationIndex,
            uint16 observationCardinality,
            uint16 observationCardinalityNext,
            uint8 feeProtocol,
            bool unlocked
        );
        function liquidity() external view returns (uint128);
        function observe(uint32[] secondsAgos) external view returns (
            int56[] tickCumulatives,
            uint160[] secondsPerLiquidityCumulativeX128s
        );
    }

    #[derive(Debug)]
    interface IQuoterV2 {
        struct QuoteExactInputSingleParams {
            address tokenIn;
            address tokenOut;
            uint256 amountIn;
            uint24 fee;
            uint160 sqrtPriceLimitX96;
        }

        struct QuoteExactOutputSingleParams {
            address tokenIn;
            address tokenOut;
            uint256 amount;
            uint24 fee;
            uint160 sqrtPriceLimitX96;
        }

        function quoteExactInputSingle(QuoteExactInputSingleParams params) external returns (
            uint256 amountOut,
            uint160 sqrtPriceX96After,
            uint32 initializedTicksCrossed,
            uint256 gasEstimate
        );
        function quoteExactInput(bytes path, uint256 amountIn) external returns (
            uint256 amountOut,
            uint160[] sqrtPriceX96AfterList,
            uint32[] initializedTicksCrossedList,
            uint256 gasEstimate
        );
        function quoteExactOutputSingle(QuoteExactOutputSingleParams params) external returns (
            uint256 amountIn,
            uint160 sqrtPriceX96After,
            uint32 initializedTicksCrossed,
            uint256 gasEstimate
        );
        function quoteExactOutput(bytes path, uint256 amountOut) external returns (
            uint256 amountIn,
            uint160[] sqrtPriceX96AfterList,
            uint32[] initializedTicksCrossedList,
            uint256 gasEstimate
        );
    }

    #[derive(Debug)]
    interface ISwapRouter02 {
        struct ExactInputSingleParams {
            address tokenIn;
            address tokenOut;
            uint24 fee;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
            uint160 sqrtPriceLimitX96;
        }

        struct ExactInputParams {
            bytes path;
            address recipient;
            uint256 amountIn;
            uint256 amountOutMinimum;
        }

        function multicall(uint256 deadline, bytes[] data) external payable returns (bytes[]);
        function exactInputSingle(ExactInputSingleParams params) external payable returns (uint256);
        function exactInput(ExactInputParams params) external payable returns (uint256);
        function unwrapWETH9(uint256 amountMinimum, address recipient) external payable;
        function refundETH() external payable;
        function factory() external view returns (address);
        function WETH9() external view returns (address);
    }
}
