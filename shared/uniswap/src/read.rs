//! Call data and answers of the reads that precede a trade: pools, their state, allowances, feeds, and the addresses
//! that the contracts use.
//!
//! Each `…_call` returns call data, and each `decode_…` decodes the answer. An answer that does not match the ABI is an
//! error.

use alloy_primitives::aliases::U160;
use alloy_primitives::{Address, B256, Bytes, U256, uint};
use alloy_sol_types::SolCall;

use crate::abi::feed::{IFeed, IStockToken};
use crate::abi::permit2::IPermit2;
use crate::abi::v3::{ISwapRouter02, IV3Factory, IV3Pool};
use crate::abi::v4::IStateView;
use crate::permit::PERMIT2_AMOUNT_MAX;
use crate::pool::V3Pool;
use crate::pool_state::PoolState;

/// Smallest square root of a price, times 2^96: `TickMath.MIN_SQRT_RATIO`.
pub const SQRT_PRICE_MIN: U256 = uint!(4295128739_U256);

/// Upper bound of square roots of prices, times 2^96, which no pool reaches: `TickMath.MAX_SQRT_RATIO`.
pub const SQRT_PRICE_MAX: U256 = uint!(1461446703485210103287273052203988822378723970342_U256);

/// Why a read gives no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadFault {
    #[error("the {0} returned an invalid answer")]
    MalformedAnswer(&'static str),
    #[error("the pool is not initialized")]
    NotInitialized,
}

/// A spender's allowance within Permit2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit2Allowance {
    /// Smallest units of the token.
    ///
    /// The largest value of 160 bits means no limit: transfers do not decrease it.
    pub amount: U256,
    /// Unix seconds after which the allowance is no longer valid.
    pub expiration: u64,
    /// The nonce of the next permit.
    pub nonce: u64,
}

impl Permit2Allowance {
    /// Returns the allowance that remains after `used` was taken; `None` if `used` exceeds the allowance.
    pub fn after_use(&self, used: U256) -> Option<U256> {
        if self.amount == PERMIT2_AMOUNT_MAX && used <= self.amount {
            return Some(self.amount);
        }
        self.amount.checked_sub(used)
    }
}

/// The newest answer of a price feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedAnswer {
    /// Greater than zero, with the feed's decimals.
    pub price: U256,
    /// Unix seconds.
    pub updated_at: u64,
}

/// Encodes the factory's `getPool`.
pub fn pool_call(pool: &V3Pool) -> Bytes {
    let (token_a, token_b) = (pool.token0(), pool.token1());
    IV3Factory::getPoolCall { tokenA: token_a, tokenB: token_b, fee: pool.abi_fee() }
        .abi_encode()
        .into()
}

/// Decodes the answer to [`pool_call`]; `None` if the pool does not exist.
///
/// # Errors
/// The answer is not one address.
pub fn decode_pool(answer: &[u8]) -> Result<Option<Address>, ReadFault> {
    let pool = IV3Factory::getPoolCall::abi_decode_returns_validate(answer)
        .map_err(|_odd| ReadFault::MalformedAnswer("factory"))?;
    Ok(Some(pool).filter(|pool| !pool.is_zero()))
}

/// Encodes a v3 pool's `slot0`.
pub fn v3_slot0_call() -> Bytes {
    IV3Pool::slot0Call {}.abi_encode().into()
}

/// Encodes a v3 pool's `liquidity`.
pub fn v3_liquidity_call() -> Bytes {
    IV3Pool::liquidityCall {}.abi_encode().into()
}

/// Decodes a v3 pool's state from the answers to [`v3_slot0_call`] and [`v3_liquidity_call`].
///
/// # Errors
/// An answer is invalid, or the pool has no price yet.
pub fn decode_v3_state(slot0: &[u8], liquidity: &[u8]) -> Result<PoolState, ReadFault> {
    let odd = |_odd| ReadFault::MalformedAnswer("pool");
    let slot0 = IV3Pool::slot0Call::abi_decode_returns_validate(slot0).map_err(odd)?;
    let liquidity = IV3Pool::liquidityCall::abi_decode_returns_validate(liquidity).map_err(odd)?;
    let sqrt_price_x96 = sqrt_price(slot0.sqrtPriceX96, "pool")?;
    Ok(PoolState { sqrt_price_x96, lp_fee: None, protocol_fee: None, liquidity })
}

/// Decodes a v3 pool's tick from the answer to [`v3_slot0_call`].
///
/// # Errors
/// The answer is invalid, or the pool has no price yet.
pub fn decode_v3_tick(slot0: &[u8]) -> Result<i32, ReadFault> {
    let slot0 = IV3Pool::slot0Call::abi_decode_returns_validate(slot0)
        .map_err(|_odd| ReadFault::MalformedAnswer("pool"))?;
    sqrt_price(slot0.sqrtPriceX96, "pool")?;
    Ok(slot0.tick.as_i32())
}

/// Encodes a v3 pool's `observe` for the period from `seconds_ago` until now.
///
/// A pool whose stored observations do not reach back that far reverts the call.
pub fn observe_call(seconds_ago: u32) -> Bytes {
    IV3Pool::observeCall { secondsAgos: vec![seconds_ago, 0] }.abi_encode().into()
}

/// Decodes the mean tick from the answer to [`observe_call`], rounded towards minus infinity.
///
/// # Errors
/// The answer is invalid, or `seconds_ago` is zero.
pub fn decode_mean_tick(answer: &[u8], seconds_ago: u32) -> Result<i32, ReadFault> {
    let odd = ReadFault::MalformedAnswer("pool");
    let answer = IV3Pool::observeCall::abi_decode_returns_validate(answer).map_err(|_odd| odd)?;
    let [then, now] = answer.tickCumulatives[..] else { return Err(odd) };
    let moved = now.as_i64().checked_sub(then.as_i64()).ok_or(odd)?;
    let mean = moved.checked_div_euclid(i64::from(seconds_ago)).ok_or(odd)?;
    i32::try_from(mean).map_err(|_odd| odd)
}

/// Encodes StateView's `getSlot0`.
pub fn v4_slot0_call(pool: B256) -> Bytes {
    IStateView::getSlot0Call { poolId: pool }.abi_encode().into()
}

/// Encodes StateView's `getLiquidity`.
pub fn v4_liquidity_call(pool: B256) -> Bytes {
    IStateView::getLiquidityCall { poolId: pool }.abi_encode().into()
}

/// Decodes a v4 pool's state from the answers to [`v4_slot0_call`] and [`v4_liquidity_call`].
///
/// # Errors
/// An answer is invalid, or the pool does not exist.
pub fn decode_v4_state(slot0: &[u8], liquidity: &[u8]) -> Result<PoolState, ReadFault> {
    let odd = |_odd| ReadFault::MalformedAnswer("StateView");
    let slot0 = IStateView::getSlot0Call::abi_decode_returns_validate(slot0).map_err(odd)?;
    let liquidity =
        IStateView::getLiquidityCall::abi_decode_returns_validate(liquidity).map_err(odd)?;
    Ok(PoolState {
        sqrt_price_x96: sqrt_price(slot0.sqrtPriceX96, "StateView")?,
        lp_fee: Some(slot0.lpFee.to()),
        protocol_fee: Some(slot0.protocolFee.to()),
        liquidity,
    })
}

/// Encodes SwapRouter02's `factory`.
pub fn router_factory_call() -> Bytes {
    ISwapRouter02::factoryCall {}.abi_encode().into()
}

/// Encodes SwapRouter02's `WETH9`.
pub fn router_wrapped_native_call() -> Bytes {
    ISwapRouter02::WETH9Call {}.abi_encode().into()
}

/// Encodes `poolManager` of StateView or V4Quoter.
pub fn pool_manager_call() -> Bytes {
    IStateView::poolManagerCall {}.abi_encode().into()
}

/// Decodes the answer to [`router_factory_call`], [`router_wrapped_native_call`] or [`pool_manager_call`].
///
/// # Errors
/// The answer is not one address, such as the empty answer of an account without code.
pub fn decode_address(answer: &[u8]) -> Result<Address, ReadFault> {
    IStateView::poolManagerCall::abi_decode_returns_validate(answer)
        .map_err(|_odd| ReadFault::MalformedAnswer("contract"))
}

/// Encodes Permit2's `DOMAIN_SEPARATOR`.
pub fn domain_separator_call() -> Bytes {
    IPermit2::DOMAIN_SEPARATORCall {}.abi_encode().into()
}

/// Encodes Permit2's `allowance`.
pub fn permit2_allowance_call(owner: Address, token: Address, spender: Address) -> Bytes {
    IPermit2::allowanceCall { user: owner, token, spender }.abi_encode().into()
}

/// Decodes the answer to [`permit2_allowance_call`].
///
/// # Errors
/// The answer is invalid.
pub fn decode_permit2_allowance(answer: &[u8]) -> Result<Permit2Allowance, ReadFault> {
    let answer = IPermit2::allowanceCall::abi_decode_returns_validate(answer)
        .map_err(|_odd| ReadFault::MalformedAnswer("Permit2 contract"))?;
    Ok(Permit2Allowance {
        amount: U256::from(answer.amount),
        expiration: answer.expiration.to(),
        nonce: answer.nonce.to(),
    })
}

/// Encodes a feed's `latestRoundData`.
pub fn feed_call() -> Bytes {
    IFeed::latestRoundDataCall {}.abi_encode().into()
}

/// Decodes the answer to [`feed_call`].
///
/// # Errors
/// The answer is invalid, the price is not positive, or the round is not complete.
pub fn decode_feed(answer: &[u8]) -> Result<FeedAnswer, ReadFault> {
    let odd = ReadFault::MalformedAnswer("price feed");
    let round =
        IFeed::latestRoundDataCall::abi_decode_returns_validate(answer).map_err(|_odd| odd)?;
    let updated_at = u64::try_from(round.updatedAt).map_err(|_odd| odd)?;
    if !round.answer.is_positive() || updated_at == 0 {
        return Err(odd);
    }
    Ok(FeedAnswer { price: round.answer.into_raw(), updated_at })
}

/// Encodes a stock token's `oraclePaused`; the answer is true while the token's feed must not be used.
pub fn oracle_paused_call() -> Bytes {
    IStockToken::oraclePausedCall {}.abi_encode().into()
}

/// Decodes the answer to [`oracle_paused_call`].
///
/// # Errors
/// The answer is not one boolean, such as the answer of a token without this function.
pub fn decode_oracle_paused(answer: &[u8]) -> Result<bool, ReadFault> {
    IStockToken::oraclePausedCall::abi_decode_returns_validate(answer)
        .map_err(|_odd| ReadFault::MalformedAnswer("stock token"))
}

/// Encodes a feed's `decimals`.
pub fn feed_decimals_call() -> Bytes {
    IFeed::decimalsCall {}.abi_encode().into()
}

/// Decodes the answer to [`feed_decimals_call`].
///
/// # Errors
/// The answer is invalid.
pub fn decode_feed_decimals(answer: &[u8]) -> Result<u8, ReadFault> {
    IFeed::decimalsCall::abi_decode_returns_validate(answer)
        .map_err(|_odd| ReadFault::MalformedAnswer("price feed"))
}

fn sqrt_price(raw: U160, source: &'static str) -> Result<U256, ReadFault> {
    let price = U256::from(raw);
    if price.is_zero() {
        return Err(ReadFault::NotInitialized);
    }
    if price < SQRT_PRICE_MIN || price >= SQRT_PRICE_MAX {
        return Err(ReadFault::MalformedAnswer(source));
    }
    Ok(price)
}

#[cfg(test)]
mod tests;
