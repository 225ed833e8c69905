//! Paths through one or more pools of the same Uniswap version.

use alloy_primitives::{Address, Bytes};

use crate::abi;
use crate::currency::Currency;
use crate::pool::{PoolKey, V3Pool};

/// Maximum number of pools in a path.
pub const HOPS_MAX: usize = 4;

/// Why pools do not form a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteFault {
    #[error("a path needs 1 to {HOPS_MAX} pools")]
    Length,
    #[error("pool {0} of the path does not trade the token that arrives there")]
    Disconnected(usize),
    #[error("the path visits a token twice")]
    Circular,
}

/// A path through v3 pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V3Path {
    input: Address,
    hops: Vec<Hop<V3Pool, Address>>,
}

/// A path through v4 pools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct V4Path {
    input: Currency,
    hops: Vec<Hop<PoolKey, Currency>>,
}

/// One pool of a path and the direction of the swap through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop<Pool, Asset> {
    /// The pool.
    pub pool: Pool,
    /// Whether the swap sells the pool's first token or currency, token 0.
    pub zero_for_one: bool,
    /// The output of the pool.
    pub output: Asset,
}

impl V3Path {
    /// Joins `pools` in the order of the swap, which starts with `input`.
    ///
    /// # Errors
    /// The pools do not connect, a token occurs twice, or there are no pools or too many.
    pub fn new(input: Address, pools: &[V3Pool]) -> Result<Self, RouteFault> {
        let ends = |pool: &V3Pool| (pool.token0(), pool.token1());
        Ok(Self { input, hops: connect_hops(input, pools, ends)? })
    }

    /// Returns the token that the path sells.
    pub fn input(&self) -> Address {
        self.input
    }

    /// Returns the token that the path buys.
    pub fn output(&self) -> Address {
        self.hops.last().map_or(self.input, |hop| hop.output)
    }

    /// Returns the pools in the order of the swap.
    pub fn hops(&self) -> &[Hop<V3Pool, Address>] {
        &self.hops
    }

    /// Returns the packed path: token, three bytes of fee, token, and so on.
    pub fn encode(&self) -> Bytes {
        let mut packed = self.input.to_vec();
        for hop in &self.hops {
            packed.extend_from_slice(&hop.pool.abi_fee().to_be_bytes::<3>());
            packed.extend_from_slice(hop.output.as_slice());
        }
        packed.into()
    }

    /// Returns the packed path from the output to the input, as exact-output quotes expect it.
    pub fn encode_reversed(&self) -> Bytes {
        let mut packed = self.output().to_vec();
        let before = self.hops.iter().rev().skip(1).map(|hop| hop.output);
        let sources = before.chain(std::iter::once(self.input));
        for (hop, source) in self.hops.iter().rev().zip(sources) {
            packed.extend_from_slice(&hop.pool.abi_fee().to_be_bytes::<3>());
            packed.extend_from_slice(source.as_slice());
        }
        packed.into()
    }
}

impl V4Path {
    /// Joins `pools` in the order of the swap, which starts with `input`.
    ///
    /// # Errors
    /// The pools do not connect, a currency occurs twice, or there are no pools or too many.
    pub fn new(input: Currency, pools: &[PoolKey]) -> Result<Self, RouteFault> {
        let ends = |pool: &PoolKey| (pool.currency0(), pool.currency1());
        Ok(Self { input, hops: connect_hops(input, pools, ends)? })
    }

    /// Returns the currency that the path sells.
    pub fn input(&self) -> Currency {
        self.input
    }

    /// Returns the currency that the path buys.
    pub fn output(&self) -> Currency {
        self.hops.last().map_or(self.input, |hop| hop.output)
    }

    /// Returns the pools in the order of the swap.
    pub fn hops(&self) -> &[Hop<PoolKey, Currency>] {
        &self.hops
    }

    pub(crate) fn to_abi(&self) -> Vec<abi::v4::PathKey> {
        let key = |hop: &Hop<PoolKey, Currency>| abi::v4::PathKey {
            intermediateCurrency: hop.output.address(),
            fee: hop.pool.abi_fee(),
            tickSpacing: hop.pool.abi_tick_spacing(),
            hooks: hop.pool.hooks(),
            hookData: Bytes::new(),
        };
        self.hops.iter().map(key).collect()
    }
}

fn connect_hops<Pool: Copy, Asset: Copy + PartialEq>(
    input: Asset,
    pools: &[Pool],
    ends: impl Fn(&Pool) -> (Asset, Asset),
) -> Result<Vec<Hop<Pool, Asset>>, RouteFault> {
    if pools.is_empty() || pools.len() > HOPS_MAX {
        return Err(RouteFault::Length);
    }
    let mut visited = vec![input];
    let mut hops = Vec::with_capacity(pools.len());
    let mut arriving = input;
    for (index, pool) in pools.iter().enumerate() {
        let (zero, one) = ends(pool);
        let zero_for_one = arriving == zero;
        if !zero_for_one && arriving != one {
            return Err(RouteFault::Disconnected(index.saturating_add(1)));
        }
        let output = if zero_for_one { one } else { zero };
        if visited.contains(&output) {
            return Err(RouteFault::Circular);
        }
        visited.push(output);
        hops.push(Hop { pool: *pool, zero_for_one, output });
        arriving = output;
    }
    Ok(hops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    fn token(byte: u8) -> Address {
        Address::repeat_byte(byte)
    }

    fn pool(a: u8, b: u8, fee: u32) -> V3Pool {
        V3Pool::new(token(a), token(b), fee).unwrap()
    }

    #[test]
    fn a_path_follows_its_tokens_and_packs_both_ways() {
        let path = V3Path::new(token(0x22), &[pool(0x11, 0x22, 500), pool(0x11, 0x33, 10_000)]);
        let path = path.unwrap();
        assert_eq!((path.input(), path.output()), (token(0x22), token(0x33)));
        let directions: Vec<_> = path.hops().iter().map(|hop| hop.zero_for_one).collect();
        assert_eq!(directions, [false, true]);
        assert_eq!(
            path.encode()[..],
            hex!(
                "2222222222222222222222222222222222222222" "0001f4"
                "1111111111111111111111111111111111111111" "002710"
                "3333333333333333333333333333333333333333"
            )
        );
        assert_eq!(
            path.encode_reversed()[..],
            hex!(
                "3333333333333333333333333333333333333333" "002710"
                "1111111111111111111111111111111111111111" "0001f4"
                "2222222222222222222222222222222222222222"
            )
        );
    }

    #[test]
    fn pools_that_form_no_path_are_refused() {
        let go = |input: u8, pools: &[V3Pool]| V3Path::new(token(input), pools).map(|_path| ());
        assert_eq!(go(1, &[]), Err(RouteFault::Length));
        let long = [pool(1, 2, 1), pool(2, 3, 1), pool(3, 4, 1), pool(4, 5, 1), pool(5, 6, 1)];
        assert_eq!(go(1, &long), Err(RouteFault::Length));
        assert_eq!(go(1, &long[..4]), Ok(()));
        assert_eq!(go(3, &[pool(1, 2, 1)]), Err(RouteFault::Disconnected(1)));
        assert_eq!(go(1, &[pool(1, 2, 1), pool(3, 4, 1)]), Err(RouteFault::Disconnected(2)));
        assert_eq!(go(1, &[pool(1, 2, 1), pool(1, 2, 500)]), Err(RouteFault::Circular));
    }

    #[test]
    fn a_v4_path_names_the_next_currency_of_each_pool() {
        let usd = Currency::Token(token(5));
        let stock = Currency::Token(token(4));
        let first = PoolKey::new(usd, Currency::Native, 500, 10, Address::ZERO).unwrap();
        let second = PoolKey::new(usd, stock, 3_000, 60, token(9)).unwrap();
        let path = V4Path::new(Currency::Native, &[first, second]).unwrap();
        assert_eq!((path.input(), path.output()), (Currency::Native, stock));
        let keys = path.to_abi();
        assert_eq!(keys[0].intermediateCurrency, token(5));
        assert_eq!(keys[1].intermediateCurrency, token(4));
        assert_eq!((keys[1].fee.to::<u32>(), keys[1].tickSpacing.as_i32()), (3_000, 60));
        assert_eq!(keys[1].hooks, token(9));
    }
}
