//! Uniswap v4 on a full chain: the real contracts, a pool of the native coin and the dollar token, and a
//! Universal Router for each calldata version.

use alloy_primitives::aliases::{U24, U48};
use alloy_primitives::{Address, B256, Bytes, U160, U256, b256, hex};
use alloy_sol_types::{SolCall, SolValue, sol};

use super::addresses::{POOL_FEE, Routers, TICK_SPACING, UniswapV4};
use super::builder::{Builder, ETHER, ETHER_PRICE, price_of};
use super::v3::{POOL_ETHER, WIDEST, tick};
use crate::call::Call;
use crate::error::DevnetError;
use crate::own_contracts;

sol! {
    struct PoolKey {
        address currency0; address currency1; uint24 fee; int24 tickSpacing; address hooks;
    }

    struct RouterParameters {
        address permit2; address weth9; address v2Factory; address v3Factory; bytes32 pairInitCodeHash;
        bytes32 poolInitCodeHash; address v4PoolManager; address v3NFTPositionManager;
        address v4PositionManager; address spokePool;
    }

    interface IPositionManager {
        function initializePool(PoolKey key, uint160 sqrtPriceX96) external payable returns (int24);
        function modifyLiquidities(bytes unlockData, uint256 deadline) external payable;
    }

    interface IPermit2 {
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
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

/// The actions that create a position: mint it, pay both sides, and return the excess native coin.
const MINT_SETTLE_SWEEP: [u8; 3] = hex!("02 0d 14");

impl Builder<'_> {
    pub(super) async fn place_v4(&self) -> Result<(), DevnetError> {
        let UniswapV4 { pool_manager, positions, quoter, state_view } = self.contracts.v4;
        let (weth, permit2) = (self.contracts.weth, self.contracts.permit2);
        let code = |artifact, arguments: Vec<u8>| self.packages.creation_code(artifact, &arguments);
        let manager = (pool_manager,).abi_encode_params();
        self.place(pool_manager, code(POOL_MANAGER, (self.maker,).abi_encode_params())?).await?;
        // No contract that draws positions.
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
        let (positions, permit2) = (self.contracts.v4.positions, self.contracts.permit2);
        let key = PoolKey {
            currency0: Address::ZERO,
            currency1: self.dollar(),
            fee: U24::from(POOL_FEE),
            tickSpacing: tick(TICK_SPACING)?,
            hooks: Address::ZERO,
        };
        let price = price_of(ETHER, ETHER_PRICE)?;
        let create = IPositionManager::initializePoolCall { key: key.clone(), sqrtPriceX96: price };
        self.send(positions, &create).await?;
        self.approve(self.dollar(), permit2).await?;
        let allow = IPermit2::approveCall {
            token: self.dollar(),
            spender: positions,
            amount: U160::MAX,
            expiration: U48::MAX,
        };
        self.send(permit2, &allow).await?;
        let (unlock, ether) = self.position(&key, price)?;
        let fill =
            IPositionManager::modifyLiquiditiesCall { unlockData: unlock, deadline: U256::MAX };
        let call =
            Call { from: self.maker, to: positions, value: ether, data: fill.abi_encode().into() };
        self.devnet.send(&call).await?;
        Ok(())
    }

    /// Returns the encoded actions that create the pool's only position, and the native coin to send along.
    fn position(&self, key: &PoolKey, price: U160) -> Result<(Bytes, U256), DevnetError> {
        let pool = U256::from(POOL_ETHER);
        let ether = U256::from(ETHER).saturating_mul(pool);
        let dollars = U256::from(ETHER_PRICE).saturating_mul(pool);
        let liquidity = liquidity(ether, dollars, U256::from(price))?;
        let most = |amount: U256| u128::try_from(amount).unwrap_or(u128::MAX);
        let (from, to) = (tick(-WIDEST)?, tick(WIDEST)?);
        let mint = (
            key.clone(),
            from,
            to,
            liquidity,
            most(ether),
            most(dollars),
            self.maker,
            Bytes::new(),
        );
        let words: Vec<Bytes> = vec![
            mint.abi_encode_params().into(),
            (key.currency0, key.currency1).abi_encode_params().into(),
            (Address::ZERO, self.maker).abi_encode_params().into(),
        ];
        let actions = Bytes::from_static(&MINT_SETTLE_SWEEP);
        Ok(((actions, words).abi_encode_params().into(), ether))
    }
}

/// Returns the liquidity of the widest range that these amounts cover, minus a thousandth because that range is
/// not quite infinite.
fn liquidity(amount0: U256, amount1: U256, price: U256) -> Result<U256, DevnetError> {
    let one = U256::from(1) << 96;
    let by0 = amount0.checked_mul(price).and_then(|product| product.checked_div(one));
    let by1 = amount1.checked_mul(one).and_then(|product| product.checked_div(price));
    let least = by0.zip(by1).map(|(by0, by1)| by0.min(by1));
    least
        .and_then(|least| least.checked_sub(least / U256::from(1_000)))
        .ok_or_else(|| DevnetError::Contract("no liquidity for such amounts".to_owned()))
}
