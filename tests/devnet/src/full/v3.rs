//! Uniswap v3 on a full chain: the real contracts, and a pool of WETH and the dollar token.

use alloy_primitives::Address;
use alloy_primitives::aliases::{I24, U24};
use alloy_sol_types::{SolCall, SolValue, sol};

use super::addresses::{POOL_FEE, UniswapV3};
use super::builder::{Builder, ETHER, ETHER_PRICE};
use super::liquidity::{PoolV3, Side};
use crate::error::DevnetError;

sol! {
    interface IFactory {
        function enableFeeAmount(uint24 fee, int24 tickSpacing) external;
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

/// The content of each protocol's pool, in ether: a thousand ether, and three million dollars on the other side.
pub(super) const POOL_ETHER: u128 = 1_000;

impl Builder<'_> {
    pub(super) async fn place_v3(&self) -> Result<(), DevnetError> {
        let UniswapV3 { factory, positions, router, quoter } = self.contracts.v3;
        let (weth, none) = (self.contracts.weth, Address::ZERO);
        let code = |artifact, arguments: Vec<u8>| self.packages.creation_code(artifact, &arguments);
        self.place(factory, code(FACTORY, Vec::new())?).await?;
        self.enable_lowest_fee(factory).await?;
        // The zero addresses stand for the contract that draws positions and for Uniswap v2; the kit has neither.
        let arguments = (factory, weth, none).abi_encode_params();
        self.place(positions, code(POSITIONS, arguments)?).await?;
        let arguments = (none, factory, positions, weth).abi_encode_params();
        self.place(router, code(ROUTER, arguments)?).await?;
        self.place(quoter, code(QUOTER, (factory, weth).abi_encode_params())?).await
    }

    /// Enables the fee of 0.01 %. Every real network has it, although the constructor does not set it.
    async fn enable_lowest_fee(&self, factory: Address) -> Result<(), DevnetError> {
        let (fee, spacing) = (U24::from(100), I24::ONE);
        let enable = IFactory::enableFeeAmountCall { fee, tickSpacing: spacing };
        let owner = self.devnet.call_from_payer(factory, enable.abi_encode());
        self.devnet.send(&owner).await.map(|_receipt| ())
    }

    pub(super) async fn fill_v3(&self) -> Result<(), DevnetError> {
        let sides = [
            Side::new(self.contracts.weth, ETHER.saturating_mul(POOL_ETHER)),
            Side::new(self.dollar(), ETHER_PRICE.saturating_mul(POOL_ETHER)),
        ];
        self.devnet.add_v3_pool(self.maker, &PoolV3 { sides, fee: POOL_FEE }).await
    }
}
