//! The Universal Router, and the parameters of its v4 swaps in both layouts.

alloy_sol_types::sol! {
    #[derive(Debug)]
    interface IUniversalRouter {
        function execute(bytes commands, bytes[] inputs, uint256 deadline) external payable;
    }
}

/// The parameters of router versions up to 2.1.0.
pub mod v2_0 {
    use crate::abi::v4::{PathKey, PoolKey};

    alloy_sol_types::sol! {
        /// A swap through one pool.
        #[derive(Debug, PartialEq, Eq)]
        struct ExactInputSingleParams {
            PoolKey poolKey;
            bool zeroForOne;
            uint128 amountIn;
            uint128 amountOutMinimum;
            bytes hookData;
        }

        /// A swap through several pools.
        #[derive(Debug, PartialEq, Eq)]
        struct ExactInputParams {
            address currencyIn;
            PathKey[] path;
            uint128 amountIn;
            uint128 amountOutMinimum;
        }
    }
}

/// The parameters of router versions from 2.1.1 on.
pub mod v2_1_1 {
    use crate::abi::v4::{PathKey, PoolKey};

    alloy_sol_types::sol! {
        /// A swap through one pool.
        #[derive(Debug, PartialEq, Eq)]
        struct ExactInputSingleParams {
            PoolKey poolKey;
            bool zeroForOne;
            uint128 amountIn;
            uint128 amountOutMinimum;
            uint256 minHopPriceX36;
            bytes hookData;
        }

        /// A swap through several pools.
        #[derive(Debug, PartialEq, Eq)]
        struct ExactInputParams {
            address currencyIn;
            PathKey[] path;
            uint256[] minHopPriceX36;
            uint128 amountIn;
            uint128 amountOutMinimum;
        }
    }
}
