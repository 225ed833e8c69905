//! Further v3 pools of the local chain, and another trader.

use alloy_primitives::aliases::{I24, U24, U160};
use alloy_primitives::{Address, U256, uint};
use bursar_devnet::Call;
use serde_json::json;

use crate::stage::Stage;

alloy_sol_types::sol! {
    interface IPositions {
        struct MintParams {
            address token0; address token1; uint24 fee; int24 tickLower; int24 tickUpper;
            uint256 amount0Desired; uint256 amount1Desired; uint256 amount0Min; uint256 amount1Min;
            address recipient; uint256 deadline;
        }

        function createAndInitializePoolIfNecessary(
            address token0, address token1, uint24 fee, uint160 sqrtPriceX96
        ) external payable returns (address pool);
        function mint(MintParams params) external payable
            returns (uint256 tokenId, uint128 liquidity, uint256 amount0, uint256 amount1);
    }

    interface IRouter {
        struct Single {
            address tokenIn; address tokenOut; uint24 fee; address recipient; uint256 amountIn;
            uint256 amountOutMinimum; uint160 sqrtPriceLimitX96;
        }

        function exactInputSingle(Single params) external payable returns (uint256 amountOut);
    }
}

/// Owns liquidity and moves prices.
const TRADER: Address = Address::repeat_byte(0x7a);

/// A price of one unit for one unit.
const EQUAL: U160 = uint!(79228162514264337593543950336_U160);

/// The widest range that a tick spacing of 60 allows.
const WIDEST: i32 = 887_220;

impl Stage {
    async fn send_as_trader(&self, to: Address, call: &impl alloy_sol_types::SolCall) {
        let coin = U256::from(10u128.pow(20));
        self.chain.request("anvil_setBalance", json!([TRADER, coin])).await.expect("set");
        self.chain.send_as(&Call::new(TRADER, to, call)).await.expect("mined");
    }

    /// Adds a v3 pool with a fee of 0.3 % of the dollar token and another token of six decimals, at equal prices.
    pub(crate) async fn add_pool(&self, token: Address, amount: u128) {
        let (dollar, positions) = (self.dollar(), self.contracts.v3.positions);
        self.chain.mint(TRADER, amount).await.expect("minted");
        self.chain.mint_of(token, TRADER, amount).await.expect("minted");
        for each in [dollar, token] {
            self.chain.approve_as(TRADER, each, positions).await.expect("approved");
        }
        let (token0, token1) = (dollar.min(token), dollar.max(token));
        let fee = U24::from(3_000);
        let create = IPositions::createAndInitializePoolIfNecessaryCall {
            token0,
            token1,
            fee,
            sqrtPriceX96: EQUAL,
        };
        self.send_as_trader(positions, &create).await;
        let tick = |number: i32| I24::try_from(number).expect("a tick");
        let params = IPositions::MintParams {
            token0,
            token1,
            fee,
            tickLower: tick(-WIDEST),
            tickUpper: tick(WIDEST),
            amount0Desired: U256::from(amount),
            amount1Desired: U256::from(amount),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: TRADER,
            deadline: U256::MAX,
        };
        self.send_as_trader(positions, &IPositions::mintCall { params }).await;
    }

    /// Buys WETH from the v3 pool with so many dollars, which makes WETH dearer there.
    pub(crate) async fn move_v3_price(&self, dollars: u128) {
        let (dollar, router) = (self.dollar(), self.contracts.v3.router);
        self.chain.mint(TRADER, dollars).await.expect("minted");
        self.chain.approve_as(TRADER, dollar, router).await.expect("approved");
        let params = IRouter::Single {
            tokenIn: dollar,
            tokenOut: self.contracts.weth,
            fee: U24::from(500),
            recipient: TRADER,
            amountIn: U256::from(dollars),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        self.send_as_trader(router, &IRouter::exactInputSingleCall { params }).await;
    }
}
