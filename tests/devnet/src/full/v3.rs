//! Uniswap v3 on a full chain: the real contracts, and a pool of WETH and the dollar token.

use alloy_primitives::aliases::{I24, U24};
use alloy_primitives::{Address, U256};
use alloy_sol_types::{SolValue, sol};

use super::addresses::{POOL_FEE, UniswapV3};
use super::builder::{Builder, ETHER, ETHER_PRICE, price_of};
use crate::error::DevnetError;

sol! {
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
}

const FACTORY: &str =
    "@uniswap/v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json";
const POSITIONS: &str = "@uniswap/v3-periphery/artifacts/contracts/NonfungiblePositionManager.sol/\
                         NonfungiblePositionManager.json";
const ROUTER: &str =
    "@uniswap/swap-router-contracts/artifacts/contracts/SwapRouter02.sol/SwapRouter02.json";
const QUOTER: &str =
    "@uniswap/swap-router-contracts/artifacts/contracts/lens/QuoterV2.sol/QuoterV2.json";

/// The widest range that a tick spacing of ten allows.
pub(super) const WIDEST: i32 = 887_270;

/// The content of each protocol's pool, in ether: a thousand ether and three million dollars.
pub(super) const POOL_ETHER: u128 = 1_000;

impl Builder<'_> {
    pub(super) async fn place_v3(&self) -> Result<(), DevnetError> {
        let UniswapV3 { factory, positions, router, quoter } = self.contracts.v3;
        let (weth, none) = (self.contracts.weth, Address::ZERO);
        let code = |artifact, arguments: Vec<u8>| self.packages.creation_code(artifact, &arguments);
        self.place(factory, code(FACTORY, Vec::new())?).await?;
        // No contract that draws positions, and no Uniswap v2.
        let arguments = (factory, weth, none).abi_encode_params();
        self.place(positions, code(POSITIONS, arguments)?).await?;
        let arguments = (none, factory, positions, weth).abi_encode_params();
        self.place(router, code(ROUTER, arguments)?).await?;
        self.place(quoter, code(QUOTER, (factory, weth).abi_encode_params())?).await
    }

    pub(super) async fn fill_v3(&self) -> Result<(), DevnetError> {
        let positions = self.contracts.v3.positions;
        let ether = (self.contracts.weth, ETHER);
        let dollar = (self.dollar(), ETHER_PRICE);
        for token in [ether.0, dollar.0] {
            self.approve(token, positions).await?;
        }
        let (first, second) = if ether.0 < dollar.0 { (ether, dollar) } else { (dollar, ether) };
        let fee = U24::from(POOL_FEE);
        let create = IPositions::createAndInitializePoolIfNecessaryCall {
            token0: first.0,
            token1: second.0,
            fee,
            sqrtPriceX96: price_of(first.1, second.1)?,
        };
        self.send(positions, &create).await?;
        let amount = |of_one: u128| U256::from(of_one).saturating_mul(U256::from(POOL_ETHER));
        let params = IPositions::MintParams {
            token0: first.0,
            token1: second.0,
            fee,
            tickLower: tick(-WIDEST)?,
            tickUpper: tick(WIDEST)?,
            amount0Desired: amount(first.1),
            amount1Desired: amount(second.1),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: self.maker,
            deadline: U256::MAX,
        };
        self.send(positions, &IPositions::mintCall { params }).await
    }
}

pub(super) fn tick(number: i32) -> Result<I24, DevnetError> {
    I24::try_from(number).map_err(|error| DevnetError::Contract(format!("a tick: {error}")))
}
