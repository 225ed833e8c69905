//! Further v3 pools of the local chain, and another trader.

use alloy_primitives::aliases::{I24, U24, U160};
use alloy_primitives::{Address, U256};
use bursar_devnet::Call;
use serde_json::json;

use crate::stage::{IWeth, Stage};

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

    interface IFactory {
        function getPool(address tokenA, address tokenB, uint24 fee) external view returns (address pool);
    }

    interface IPool {
        function increaseObservationCardinalityNext(uint16 next) external;
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
pub(crate) const TRADER: Address = Address::repeat_byte(0x7a);

impl Stage {
    async fn send_as_trader(&self, to: Address, call: &impl alloy_sol_types::SolCall) {
        let coin = U256::from(10u128.pow(20));
        self.chain.request("anvil_setBalance", json!([TRADER, coin])).await.expect("set");
        self.chain.send_as(&Call::new(TRADER, to, call)).await.expect("mined");
    }

    /// Adds a v3 pool with a fee of 0.3 % of the dollar token and another token of six decimals, at equal prices.
    pub(crate) async fn add_pool(&self, token: Address, amount: u128) {
        let dollar = self.dollar();
        self.chain.mint(TRADER, amount).await.expect("minted");
        self.chain.mint_of(token, TRADER, amount).await.expect("minted");
        self.fill_pool(3_000, 60, [(dollar, amount), (token, amount)]).await;
    }

    /// Adds a v3 pool that holds so much of both tokens over all prices, as the trader. Their ratio is the price.
    pub(crate) async fn fill_pool(&self, fee: u32, spacing: i32, sides: [(Address, u128); 2]) {
        let positions = self.contracts.v3.positions;
        for (token, _amount) in sides {
            self.chain.approve_as(TRADER, token, positions).await.expect("approved");
        }
        let [first, second] = sides;
        let ((token0, amount0), (token1, amount1)) =
            if first.0 < second.0 { (first, second) } else { (second, first) };
        let fee = U24::from(fee);
        // The root of 2^192 times the price, in units that do not overflow.
        let ratio: U256 = (U256::from(amount1) << 128) / U256::from(amount0);
        let create = IPositions::createAndInitializePoolIfNecessaryCall {
            token0,
            token1,
            fee,
            sqrtPriceX96: U160::from(ratio.root(2) << 32),
        };
        self.send_as_trader(positions, &create).await;
        let widest = 887_272 / spacing * spacing;
        let tick = |number: i32| I24::try_from(number).expect("a tick");
        let params = IPositions::MintParams {
            token0,
            token1,
            fee,
            tickLower: tick(-widest),
            tickUpper: tick(widest),
            amount0Desired: U256::from(amount0),
            amount1Desired: U256::from(amount1),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: TRADER,
            deadline: U256::MAX,
        };
        self.send_as_trader(positions, &IPositions::mintCall { params }).await;
    }

    /// Makes the pool of a token and the dollar token keep its past prices.
    pub(crate) async fn keep_averages(&self, token: Address, fee: u32) {
        let fee = U24::from(fee);
        let asked = IFactory::getPoolCall { tokenA: self.dollar(), tokenB: token, fee };
        let pool = self.chain.read(self.contracts.v3.factory, asked).await.expect("a pool");
        let keep = IPool::increaseObservationCardinalityNextCall { next: 16 };
        self.send_as_trader(pool, &keep).await;
    }

    /// Gives the trader so much of the wrapped coin.
    pub(crate) async fn wrap_for_trader(&self, wei: u128) {
        let coin = U256::from(2 * wei);
        self.chain.request("anvil_setBalance", json!([TRADER, coin])).await.expect("set");
        let wrap = Call::new(TRADER, self.contracts.weth, &IWeth::depositCall {});
        self.chain.send_as(&wrap.with_value(U256::from(wei))).await.expect("wrapped");
    }

    /// Buys WETH from the v3 pool with so many dollars, which makes WETH dearer there.
    pub(crate) async fn move_v3_price(&self, dollars: u128) {
        self.buy(self.contracts.weth, 500, dollars).await;
    }

    /// Buys a token from its v3 pool with so many dollars, which makes it dearer there.
    pub(crate) async fn buy(&self, token: Address, fee: u32, dollars: u128) {
        let (dollar, router) = (self.dollar(), self.contracts.v3.router);
        self.chain.mint(TRADER, dollars).await.expect("minted");
        self.chain.approve_as(TRADER, dollar, router).await.expect("approved");
        let params = IRouter::Single {
            tokenIn: dollar,
            tokenOut: token,
            fee: U24::from(fee),
            recipient: TRADER,
            amountIn: U256::from(dollars),
            amountOutMinimum: U256::ZERO,
            sqrtPriceLimitX96: U160::ZERO,
        };
        self.send_as_trader(router, &IRouter::exactInputSingleCall { params }).await;
    }
}
