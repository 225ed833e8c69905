//! The answers of contracts to read-only calls: pools, quoters and feeds.

use alloy_primitives::aliases::{I24, U24, U160};
use alloy_primitives::{Address, Bytes, I256, U256};
use alloy_sol_types::{SolCall, SolError};
use bursar_core::networks::OP_GAS_PRICE_ORACLE;

use super::abi;
use super::contracts::id4;
use super::machine::{Machine, Message, Reverted, arguments, is_call, revert_error, word};
use super::routers::{after_hook, hops};
use super::state::V4Pool;

/// The gas of a swap that the quoters estimate.
const QUOTED_GAS: u64 = 90_000;

impl Machine<'_> {
    /// Answers a read-only call. An unknown contract answers like an account without code.
    pub(super) fn view(&self, message: &Message) -> Result<Bytes, Reverted> {
        let exchange = self.env.contracts.exchange;
        let (to, data) = (message.to, &message.data[..]);
        if to == exchange.v3.factory && is_call::<abi::Factory3::getPoolCall>(data) {
            let abi::Factory3::getPoolCall { a, b, fee } = arguments(data)?;
            let address = self.env.contracts.pool3(a, b, fee.to());
            let known = self.state.pools3.contains_key(&address);
            return Ok(Bytes::from(if known { address } else { Address::ZERO }.into_word()));
        }
        if to == exchange.v3.quoter {
            return self.quoter3(data);
        }
        if to == exchange.v4.quoter {
            return self.quoter4(data);
        }
        if to == exchange.v4.state_view {
            return self.view4(data);
        }
        if to == OP_GAS_PRICE_ORACLE && self.env.contracts.charges_for_data() {
            let size = arguments::<abi::DataFee::getL1FeeUpperBoundCall>(data)?.size;
            return Ok(word(size * U256::from(self.state.data_fee)));
        }
        if exchange.native_feed.is_some_and(|feed| feed.address == to) {
            return self.feed(data);
        }
        match self.state.pools3.get(&to) {
            Some(pool) if is_call::<abi::Pool3::slot0Call>(data) => {
                let answer = abi::Pool3::slot0Return {
                    sqrtPriceX96: U160::from(pool.range.price),
                    tick: I24::ZERO,
                    i: 0,
                    c: 1,
                    n: 1,
                    f: 0,
                    unlocked: true,
                };
                Ok(abi::Pool3::slot0Call::abi_encode_returns(&answer).into())
            }
            Some(pool) if is_call::<abi::Pool3::liquidityCall>(data) => {
                Ok(word(U256::from(pool.range.liquidity)))
            }
            Some(_pool) => Err(Bytes::new()),
            None => Ok(Bytes::new()),
        }
    }

    fn feed(&self, data: &[u8]) -> Result<Bytes, Reverted> {
        let feed = self.env.contracts.exchange.native_feed.ok_or_else(Bytes::new)?;
        if is_call::<abi::Feed::decimalsCall>(data) {
            return Ok(word(U256::from(feed.decimals)));
        }
        if !is_call::<abi::Feed::latestRoundDataCall>(data) {
            return Err(Bytes::new());
        }
        let (answer, updated) = self.state.feed;
        let round = abi::Feed::latestRoundDataReturn {
            roundId: alloy_primitives::aliases::U80::from(1),
            answer: I256::from_raw(answer),
            startedAt: U256::from(updated),
            updatedAt: U256::from(updated),
            answeredInRound: alloy_primitives::aliases::U80::from(1),
        };
        Ok(abi::Feed::latestRoundDataCall::abi_encode_returns(&round).into())
    }

    fn quoter3(&self, data: &[u8]) -> Result<Bytes, Reverted> {
        let exchange = self.env.contracts.exchange;
        if is_call::<abi::Router3::factoryCall>(data) {
            return Ok(Bytes::from(exchange.v3.factory.into_word()));
        }
        if is_call::<abi::Router3::WETH9Call>(data) {
            return Ok(Bytes::from(exchange.wrapped_native.into_word()));
        }
        if is_call::<abi::Quoter3::quoteExactInputSingleCall>(data) {
            let params = arguments::<abi::Quoter3::quoteExactInputSingleCall>(data)?.params;
            let hop = (params.tokenIn, params.tokenOut, params.fee.to());
            let (out, after) = self.quote3(hop, params.amountIn)?;
            let answer = abi::Quoter3::quoteExactInputSingleReturn {
                amountOut: out,
                after_: U160::from(after),
                ticks: 1,
                gas: U256::from(QUOTED_GAS),
            };
            return Ok(abi::Quoter3::quoteExactInputSingleCall::abi_encode_returns(&answer).into());
        }
        let abi::Quoter3::quoteExactInputCall { path, amountIn } = arguments(data)?;
        let (mut amount, mut ends) = (amountIn, Vec::new());
        for hop in hops(&path).ok_or_else(Bytes::new)? {
            let (out, after) = self.quote3(hop, amount)?;
            ends.push(U160::from(after));
            amount = out;
        }
        let answer = abi::Quoter3::quoteExactInputReturn {
            amountOut: amount,
            ticks: vec![1; ends.len()],
            gas: U256::from(QUOTED_GAS * u64::try_from(ends.len()).unwrap_or(1)),
            after_: ends,
        };
        Ok(abi::Quoter3::quoteExactInputCall::abi_encode_returns(&answer).into())
    }

    fn quote3(
        &self,
        (input, output, fee): (Address, Address, u32),
        amount: U256,
    ) -> Result<(U256, U256), Reverted> {
        let address = self.env.contracts.pool3(input, output, fee);
        let pool = self.state.pools3.get(&address).ok_or_else(Bytes::new)?;
        let moved = pool.range.sell(input == pool.token0, amount);
        Ok((self.quoted(moved.out), moved.after))
    }

    /// Returns the answer of a quoter. The node may lie.
    fn quoted(&self, out: U256) -> U256 {
        out * U256::from(self.state.quoted_permille) / U256::from(1_000)
    }

    fn quoter4(&self, data: &[u8]) -> Result<Bytes, Reverted> {
        let exchange = self.env.contracts.exchange;
        if is_call::<abi::View4::poolManagerCall>(data) {
            return Ok(Bytes::from(exchange.v4.pool_manager.into_word()));
        }
        let params = arguments::<abi::Quoter4::quoteExactInputSingleCall>(data)?.params;
        let id = id4(&params.key);
        let wrapped = |inner: Vec<u8>| {
            revert_error(&abi::Quoter4::UnexpectedRevertBytes { revertData: inner.into() })
        };
        let missing = || wrapped(abi::Quoter4::PoolNotInitialized {}.abi_encode());
        let pool = self.state.v4_pools.get(&id).ok_or_else(missing)?;
        let moved = pool.range.sell(params.zeroForOne, U256::from(params.exactAmount));
        if moved.is_drained {
            return Err(wrapped(abi::Quoter4::NotEnoughLiquidity { poolId: id }.abi_encode()));
        }
        let answer = abi::Quoter4::quoteExactInputSingleReturn {
            amountOut: self.quoted(after_hook(pool, moved.out)),
            gas: U256::from(QUOTED_GAS),
        };
        Ok(abi::Quoter4::quoteExactInputSingleCall::abi_encode_returns(&answer).into())
    }

    fn shown_price(&self, pool: &V4Pool) -> U256 {
        if !self.state.price_by_dust || pool.hook_takes == 0 {
            return pool.range.price;
        }
        // The false price makes only one direction look better; the other direction looks worse.
        let kept = U256::from(10_000 - pool.hook_takes) * U256::from(10_000);
        pool.range.price * kept.root(2) / U256::from(10_000)
    }

    fn view4(&self, data: &[u8]) -> Result<Bytes, Reverted> {
        if is_call::<abi::View4::poolManagerCall>(data) {
            let manager = self.env.contracts.exchange.v4.pool_manager;
            return Ok(Bytes::from(manager.into_word()));
        }
        if is_call::<abi::View4::getSlot0Call>(data) {
            let id = arguments::<abi::View4::getSlot0Call>(data)?.id;
            let pool = self.state.v4_pools.get(&id);
            let answer = abi::View4::getSlot0Return {
                sqrtPriceX96: pool.map_or(U160::ZERO, |pool| U160::from(self.shown_price(pool))),
                tick: I24::ZERO,
                protocolFee: U24::ZERO,
                lpFee: pool.map_or(U24::ZERO, |pool| U24::from(pool.range.fee)),
            };
            return Ok(abi::View4::getSlot0Call::abi_encode_returns(&answer).into());
        }
        let id = arguments::<abi::View4::getLiquidityCall>(data)?.id;
        let pool = self.state.v4_pools.get(&id);
        Ok(word(pool.map_or(U256::ZERO, |pool| U256::from(pool.range.liquidity))))
    }

    /// Returns whether an account has code.
    pub(crate) fn has_code(&self, address: Address) -> bool {
        let exchange = self.env.contracts.exchange;
        let contracts = [
            exchange.wrapped_native,
            exchange.v3.factory,
            exchange.v3.router,
            exchange.v3.quoter,
            exchange.v4.pool_manager,
            exchange.v4.router,
            exchange.v4.quoter,
            exchange.v4.state_view,
            exchange.permit2,
            bursar_core::networks::MULTICALL3,
        ];
        contracts.contains(&address)
            || self.state.tokens.contains_key(&address)
            || self.state.pools3.contains_key(&address)
    }
}
