//! Pools with liquidity: those of a new chain, and those that a test adds to a running one.

use alloy_primitives::aliases::{I24, U24, U48};
use alloy_primitives::{Address, Bytes, U160, U256, hex};
use alloy_sol_types::{SolValue, sol};

use super::addresses::Contracts;
use crate::call::Call;
use crate::error::DevnetError;
use crate::node::Devnet;

sol! {
    struct PoolKey {
        address currency0; address currency1; uint24 fee; int24 tickSpacing; address hooks;
    }

    interface IV3Positions {
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

    interface IV4Positions {
        function initializePool(PoolKey key, uint160 sqrtPriceX96) external payable returns (int24);
        function modifyLiquidities(bytes unlockData, uint256 deadline) external payable;
    }

    interface IPermit2 {
        function approve(address token, address spender, uint160 amount, uint48 expiration) external;
    }

    interface IErc20 {
        function approve(address spender, uint256 value) external;
    }
}

/// The actions that create a v4 position: mint it, pay both sides, and return the excess native coin.
const MINT_SETTLE_SWEEP: [u8; 3] = hex!("02 0d 14");

/// The highest tick of a price.
const HIGHEST_TICK: i32 = 887_272;

/// The v3 fees, and the tick spacing of each.
const V3_SPACINGS: [(u32, i32); 4] = [(100, 1), (500, 10), (3_000, 60), (10_000, 200)];

/// One side of a pool. The zero address stands for the native coin, which only v4 supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    pub token: Address,
    /// The pool's amount of this token, in smallest units.
    pub amount: u128,
}

/// A v3 pool to add, with one position over all prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolV3 {
    pub sides: [Side; 2],
    /// The fee in hundredths of a basis point.
    pub fee: u32,
}

/// A v4 pool to add, with one position over all prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolV4 {
    pub sides: [Side; 2],
    /// The fee in hundredths of a basis point, or the marker of a dynamic fee.
    pub fee: u32,
    pub tick_spacing: i32,
    pub hooks: Address,
}

impl Side {
    /// Creates a side from a token and the pool's amount of it.
    pub fn new(token: Address, amount: u128) -> Self {
        Self { token, amount }
    }
}

impl PoolV4 {
    /// Returns the pool's key.
    pub(super) fn key(&self) -> Result<PoolKey, DevnetError> {
        let [first, second] = sort_sides(self.sides);
        Ok(PoolKey {
            currency0: first.token,
            currency1: second.token,
            fee: U24::from(self.fee),
            tickSpacing: tick(self.tick_spacing)?,
            hooks: self.hooks,
        })
    }
}

impl Devnet {
    /// Adds a v3 pool, to which `owner` gives the amounts of both sides.
    ///
    /// # Errors
    /// The pool exists at another price, or `owner` has too little of a side.
    pub async fn add_v3_pool(&self, owner: Address, pool: &PoolV3) -> Result<(), DevnetError> {
        let positions = self.contracts()?.v3.positions;
        let [first, second] = sort_sides(pool.sides);
        for side in [first, second] {
            self.allow(owner, side.token, positions).await?;
        }
        let spacing = V3_SPACINGS.iter().find(|(fee, _spacing)| *fee == pool.fee);
        let (_fee, spacing) = spacing.ok_or_else(|| contract_error("no such fee tier"))?;
        let fee = U24::from(pool.fee);
        let create = IV3Positions::createAndInitializePoolIfNecessaryCall {
            token0: first.token,
            token1: second.token,
            fee,
            sqrtPriceX96: price_of(first.amount, second.amount)?,
        };
        self.send_as(&Call::new(owner, positions, &create)).await?;
        let params = IV3Positions::MintParams {
            token0: first.token,
            token1: second.token,
            fee,
            tickLower: tick(-highest_usable_tick(*spacing))?,
            tickUpper: tick(highest_usable_tick(*spacing))?,
            amount0Desired: U256::from(first.amount),
            amount1Desired: U256::from(second.amount),
            amount0Min: U256::ZERO,
            amount1Min: U256::ZERO,
            recipient: owner,
            deadline: U256::MAX,
        };
        let mint = IV3Positions::mintCall { params };
        self.send_as(&Call::new(owner, positions, &mint)).await.map(|_receipt| ())
    }

    /// Adds a v4 pool, to which `owner` gives the amounts of both sides.
    ///
    /// # Errors
    /// The pool exists, its hooks refuse it, or `owner` has too little of a side.
    pub async fn add_v4_pool(&self, owner: Address, pool: &PoolV4) -> Result<(), DevnetError> {
        let Contracts { permit2, v4, .. } = self.contracts()?;
        let [first, second] = sort_sides(pool.sides);
        let (key, price) = (pool.key()?, price_of(first.amount, second.amount)?);
        let create = IV4Positions::initializePoolCall { key: key.clone(), sqrtPriceX96: price };
        self.send_as(&Call::new(owner, v4.positions, &create)).await?;
        for side in [first, second].into_iter().filter(|side| side.token != Address::ZERO) {
            self.allow_permit2(owner, side.token, permit2, v4.positions).await?;
        }
        let widest = highest_usable_tick(pool.tick_spacing);
        let liquidity = liquidity(first.amount, second.amount, U256::from(price))?;
        let (from, to) = (tick(-widest)?, tick(widest)?);
        let mint =
            (key.clone(), from, to, liquidity, first.amount, second.amount, owner, Bytes::new());
        let words: Vec<Bytes> = vec![
            mint.abi_encode_params().into(),
            (key.currency0, key.currency1).abi_encode_params().into(),
            (Address::ZERO, owner).abi_encode_params().into(),
        ];
        let unlock = (Bytes::from_static(&MINT_SETTLE_SWEEP), words).abi_encode_params();
        let fill =
            IV4Positions::modifyLiquiditiesCall { unlockData: unlock.into(), deadline: U256::MAX };
        let native = if first.token == Address::ZERO { first.amount } else { 0 };
        let call = Call::new(owner, v4.positions, &fill).with_value(U256::from(native));
        self.send_as(&call).await.map(|_receipt| ())
    }

    /// Returns the contracts of this full chain.
    pub(super) fn contracts(&self) -> Result<Contracts, DevnetError> {
        let chain = self.network.chain;
        Contracts::of(chain).ok_or(DevnetError::UnknownChain(chain))
    }

    /// Lets `spender` transfer all of `owner`'s balance of a token.
    pub(super) async fn allow(
        &self,
        owner: Address,
        token: Address,
        spender: Address,
    ) -> Result<(), DevnetError> {
        let approve = IErc20::approveCall { spender, value: U256::MAX };
        self.send_as(&Call::new(owner, token, &approve)).await.map(|_receipt| ())
    }

    /// Lets `spender` transfer all of `owner`'s balance of a token through Permit2.
    pub(super) async fn allow_permit2(
        &self,
        owner: Address,
        token: Address,
        permit2: Address,
        spender: Address,
    ) -> Result<(), DevnetError> {
        self.allow(owner, token, permit2).await?;
        let allow =
            IPermit2::approveCall { token, spender, amount: U160::MAX, expiration: U48::MAX };
        self.send_as(&Call::new(owner, permit2, &allow)).await.map(|_receipt| ())
    }
}

fn contract_error(what: &str) -> DevnetError {
    DevnetError::Contract(what.to_owned())
}

/// Orders the sides by address, as pools do.
fn sort_sides(sides: [Side; 2]) -> [Side; 2] {
    let [one, other] = sides;
    if one.token < other.token { [one, other] } else { [other, one] }
}

/// Returns the highest tick of a tick spacing.
fn highest_usable_tick(spacing: i32) -> i32 {
    HIGHEST_TICK.checked_div(spacing).unwrap_or(0).saturating_mul(spacing)
}

fn tick(number: i32) -> Result<I24, DevnetError> {
    I24::try_from(number).map_err(|error| contract_error(&format!("a tick: {error}")))
}

/// Returns the price of a pool that holds these amounts in Uniswap's format: the square root of their ratio,
/// with 96 fractional bits.
fn price_of(amount0: u128, amount1: u128) -> Result<U160, DevnetError> {
    let invalid = || contract_error(&format!("{amount1} for {amount0} is no price"));
    // The ratio is computed with 192 fractional bits, so the amount may have at most 64 bits.
    let excess = 64_u32.saturating_sub(amount1.leading_zeros());
    let scaled = U256::from(amount1 >> excess).checked_shl(192).ok_or_else(invalid)?;
    let ratio = scaled.checked_div(U256::from(amount0 >> excess)).ok_or_else(invalid)?;
    Ok(U160::from(ratio.root(2)))
}

/// Returns the liquidity of the widest range that these amounts cover, minus a thousandth because that range is
/// not quite infinite.
fn liquidity(amount0: u128, amount1: u128, price: U256) -> Result<U256, DevnetError> {
    let one = U256::from(1) << 96;
    let by0 = U256::from(amount0).checked_mul(price).and_then(|product| product.checked_div(one));
    let by1 = U256::from(amount1).checked_mul(one).and_then(|product| product.checked_div(price));
    let least = by0.zip(by1).map(|(by0, by1)| by0.min(by1));
    least
        .and_then(|least| least.checked_sub(least / U256::from(1_000)))
        .ok_or_else(|| contract_error("no liquidity for such amounts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_the_root_of_a_ratio() {
        assert_eq!(price_of(1, 1).unwrap(), U160::from(1) << 96);
        assert_eq!(price_of(7, 28).unwrap(), U160::from(2) << 96);
        // 3000 dollars of six decimals for one ether, computed independently.
        let known: U160 = "4339505179874779489431521".parse().unwrap();
        assert_eq!(price_of(1_000_000_000_000_000_000, 3_000_000_000).unwrap(), known);
        assert!(price_of(0, 1).is_err());
        assert!(price_of(1, u128::MAX).is_err());
        // This amount exceeds 64 bits.
        assert_eq!(price_of(1 << 90, 1 << 92).unwrap(), U160::from(2) << 96);
    }

    #[test]
    fn the_widest_range_is_a_multiple_of_the_spacing() {
        assert_eq!([1, 10, 60, 200].map(highest_usable_tick), [887_272, 887_270, 887_220, 887_200]);
    }
}
