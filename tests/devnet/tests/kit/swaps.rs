//! Quotes and swaps on a full chain: the router gives exactly what the quoter reports.

use alloy_primitives::aliases::{U24, U160};
use alloy_primitives::{Address, U256};
use alloy_sol_types::sol;
use bursar_devnet::full::POOL_FEE;

use crate::full::{DOLLAR, ETHER, Trader, traders};
use crate::routers::{Fields, Swap};

sol! {
    interface IQuoterV2 {
        struct QuoteExactInputSingleParams {
            address tokenIn; address tokenOut; uint256 amountIn; uint24 fee; uint160 sqrtPriceLimitX96;
        }

        function quoteExactInputSingle(QuoteExactInputSingleParams params) external returns (
            uint256 amountOut, uint160 sqrtPriceX96After, uint32 ticksCrossed, uint256 gasEstimate
        );
    }

    interface ISwapRouter02 {
        struct ExactInputSingleParams {
            address tokenIn; address tokenOut; uint24 fee; address recipient; uint256 amountIn;
            uint256 amountOutMinimum; uint160 sqrtPriceLimitX96;
        }

        function exactInputSingle(ExactInputSingleParams params) external payable
            returns (uint256 amountOut);
    }
}

async fn quote_v3(trader: &Trader, from: Address, to: Address, amount: U256) -> U256 {
    let params = IQuoterV2::QuoteExactInputSingleParams {
        tokenIn: from,
        tokenOut: to,
        amountIn: amount,
        fee: U24::from(POOL_FEE),
        sqrtPriceLimitX96: U160::ZERO,
    };
    let question = IQuoterV2::quoteExactInputSingleCall { params };
    trader.devnet.read(trader.contracts.v3.quoter, question).await.unwrap().amountOut
}

#[tokio::test]
async fn the_v3_quote_equals_the_routers_output() {
    for trader in traders().await {
        let (weth, dollar) = (trader.contracts.weth, trader.dollar());
        let cases =
            [(dollar, weth, 3_000 * DOLLAR), (weth, dollar, ETHER), (dollar, weth, 7 * DOLLAR)];
        for (from, to, amount) in cases {
            trader.approve(from, trader.contracts.v3.router).await;
            let amount = U256::from(amount);
            let quoted = quote_v3(&trader, from, to, amount).await;
            let params = ISwapRouter02::ExactInputSingleParams {
                tokenIn: from,
                tokenOut: to,
                fee: U24::from(POOL_FEE),
                recipient: trader.address,
                amountIn: amount,
                amountOutMinimum: quoted,
                sqrtPriceLimitX96: U160::ZERO,
            };
            let swap = ISwapRouter02::exactInputSingleCall { params: params.clone() };
            let swap = trader.call(trader.contracts.v3.router, &swap);
            assert_eq!(trader.gain(to, &swap).await, quoted);
            // The same swap is now more expensive, so the router's minimum refuses it.
            let refusal = trader.refusal(&swap).await;
            assert!(String::from_utf8_lossy(&refusal).contains("Too little received"));
        }
        // 3000 dollars buy an ether, minus the fee and the price impact.
        let bought = quote_v3(&trader, dollar, weth, U256::from(3_000 * DOLLAR)).await;
        assert!(bought < U256::from(ETHER) && bought > U256::from(ETHER / 1_000 * 997));
    }
}

#[tokio::test]
async fn the_v4_quote_equals_the_routers_output() {
    for trader in traders().await {
        let router = trader.contracts.routers.v2_1_0;
        Swap::prepare(&trader, router).await;
        for (sell_ether, amount) in
            [(false, 3_000 * DOLLAR), (true, ETHER), (false, 7 * DOLLAR), (true, ETHER / 100)]
        {
            let mut swap = Swap { fields: Fields::Five, sell_ether, amount, min_out: 1 };
            let quoted = swap.quote(&trader).await;
            swap.min_out = quoted.to::<u128>();
            let call = swap.call(&trader, router);
            assert_eq!(trader.gain(swap.bought(&trader), &call).await, quoted);
            // V4TooLittleReceived(uint256,uint256): the same swap is now more expensive.
            assert_eq!(trader.refusal(&call).await[..4], [0x8b, 0x06, 0x3d, 0x73]);
        }
    }
}
