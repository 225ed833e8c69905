//! Uniswap v4 on a full chain: the real contracts, a pool of the native coin and the dollar token, and a
//! Universal Router for each calldata version.

use alloy_primitives::{Address, B256, U256, b256};
use alloy_sol_types::{SolValue, sol};

use super::addresses::{POOL_FEE, Routers, TICK_SPACING, UniswapV4};
use super::builder::{Builder, ETHER, ETHER_PRICE};
use super::liquidity::{PoolV4, Side};
use super::v3::POOL_ETHER;
use crate::error::DevnetError;
use crate::own_contracts;

sol! {
    struct RouterParameters {
        address permit2; address weth9; address v2Factory; address v3Factory; bytes32 pairInitCodeHash;
        bytes32 poolInitCodeHash; address v4PoolManager; address v3NFTPositionManager;
        address v4PositionManager; address spokePool;
    }
}

const POOL_MANAGER: &str = "@uniswap/v4-core/out/PoolManager.sol/PoolManager.json";
const POSITIONS: &str =
    "@uniswap/v4-periphery/foundry-out/PositionManager.sol/PositionManager.json";
const QUOTER: &str = "@uniswap/v4-periphery/foundry-out/V4Quoter.sol/V4Quoter.json";
const STATE_VIEW: &str = "@uniswap/v4-periphery/foundry-out/StateView.sol/StateView.json";
const ROUTER: &str =
    "@uniswap/universal-router/artifacts/contracts/UniversalRouter.sol/UniversalRouter.json";

/// The hash of the creation code of a v3 pool, from which routers compute a pool's address.
const V3_POOL_CODE: B256 =
    b256!("0xe34f199b19b2b4f47f68442619d555527d244f78a3297ea89325f843f87b8b54");

/// Gas that the PositionManager leaves for notifying a subscriber.
const UNSUBSCRIBE_GAS: u64 = 300_000;

impl Builder<'_> {
    pub(super) async fn place_v4(&self) -> Result<(), DevnetError> {
        let UniswapV4 { pool_manager, positions, quoter, state_view } = self.contracts.v4;
        let (weth, permit2) = (self.contracts.weth, self.contracts.permit2);
        let code = |artifact, arguments: Vec<u8>| self.packages.creation_code(artifact, &arguments);
        let manager = (pool_manager,).abi_encode_params();
        self.place(pool_manager, code(POOL_MANAGER, (self.maker,).abi_encode_params())?).await?;
        // The zero address stands for the contract that draws positions; the kit has none.
        let arguments = (pool_manager, permit2, U256::from(UNSUBSCRIBE_GAS), Address::ZERO, weth);
        self.place(positions, code(POSITIONS, arguments.abi_encode_params())?).await?;
        self.place(quoter, code(QUOTER, manager.clone())?).await?;
        self.place(state_view, code(STATE_VIEW, manager)?).await?;
        self.place_routers().await
    }

    async fn place_routers(&self) -> Result<(), DevnetError> {
        let Routers { v2_1_0, v2_1_1, v2_1_2 } = self.contracts.routers;
        let parameters = RouterParameters {
            permit2: self.contracts.permit2,
            weth9: self.contracts.weth,
            v2Factory: Address::ZERO,
            v3Factory: self.contracts.v3.factory,
            pairInitCodeHash: B256::ZERO,
            poolInitCodeHash: V3_POOL_CODE,
            v4PoolManager: self.contracts.v4.pool_manager,
            v3NFTPositionManager: self.contracts.v3.positions,
            v4PositionManager: self.contracts.v4.positions,
            spokePool: Address::ZERO,
        };
        let real = self.packages.creation_code(ROUTER, &parameters.abi_encode())?;
        self.place(v2_1_0, real).await?;
        let arguments = (self.contracts.v4.pool_manager, self.contracts.permit2);
        let stand_in = own_contracts::ROUTER.creation_code(&arguments.abi_encode_params())?;
        self.place(v2_1_1, stand_in.clone()).await?;
        self.place(v2_1_2, stand_in).await
    }

    pub(super) async fn fill_v4(&self) -> Result<(), DevnetError> {
        let sides = [
            Side::new(Address::ZERO, ETHER.saturating_mul(POOL_ETHER)),
            Side::new(self.dollar(), ETHER_PRICE.saturating_mul(POOL_ETHER)),
        ];
        let pool =
            PoolV4 { sides, fee: POOL_FEE, tick_spacing: TICK_SPACING, hooks: Address::ZERO };
        self.devnet.add_v4_pool(self.maker, &pool).await
    }
}
