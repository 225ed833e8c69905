//! The arithmetic of one range of liquidity in integers. A price is a square root times 2^96.

use alloy_primitives::{U256, U512, uint};

pub(super) const SQRT_MIN: U256 = uint!(4295128739_U256);
pub(super) const SQRT_MAX: U256 = uint!(1461446703485210103287273052203988822378723970342_U256);

/// The effect of a swap on a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moved {
    /// The amount that the pool takes, including the fee.
    pub(super) taken: U256,
    pub(super) out: U256,
    pub(super) after: U256,
    /// Whether the liquidity of the range did not suffice.
    pub(super) drained: bool,
}

/// A range of liquidity, and the price in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) price: U256,
    pub(super) liquidity: u128,
    pub(super) low: U256,
    pub(super) high: U256,
    /// The fee in hundredths of a basis point.
    pub(super) fee: u32,
}

fn wide(value: U256) -> U512 {
    U512::from(value)
}

fn narrow(value: U512) -> U256 {
    U256::checked_from_limbs_slice(value.as_limbs()).unwrap_or(U256::MAX)
}

/// Returns `a * b / c`, rounded down or up.
pub(super) fn scaled(a: U256, b: U256, c: U256, up: bool) -> U256 {
    let (quotient, rest) = (wide(a) * wide(b)).div_rem(wide(c));
    narrow(if up && !rest.is_zero() { quotient + U512::from(1) } else { quotient })
}

impl Range {
    /// Computes a sale of `amount` of token 0 or token 1.
    pub(super) fn sell(&self, zero_for_one: bool, amount: U256) -> Moved {
        let whole = U256::from(1_000_000);
        let kept = U256::from(1_000_000 - self.fee);
        let net = scaled(amount, kept, whole, false);
        let liquidity = U256::from(self.liquidity);
        let next = if zero_for_one { self.down(net) } else { self.up(net) };
        let bound = if zero_for_one { self.low } else { self.high };
        let drained = if zero_for_one { next <= bound } else { next >= bound };
        if !drained {
            let out = self.between(zero_for_one, next, false);
            return Moved { taken: amount, out, after: next, drained };
        }
        let out = self.between(zero_for_one, bound, false);
        let used = if zero_for_one {
            // amount0 = L * (1 / low - 1 / price)
            let part = scaled(liquidity << 96, self.price - bound, self.price, true);
            part.div_ceil(bound)
        } else {
            scaled(liquidity, bound - self.price, U256::from(1) << 96, true)
        };
        let taken = scaled(used, whole, kept, true).min(amount);
        // Without liquidity, the price moves to the end of its scale.
        let after = if zero_for_one { SQRT_MIN + U256::from(1) } else { SQRT_MAX - U256::from(1) };
        Moved { taken, out, after, drained }
    }

    /// Returns the price after a sale of token 0.
    fn down(&self, net: U256) -> U256 {
        let l: U512 = wide(U256::from(self.liquidity)) << 96_usize;
        let below = l + wide(net) * wide(self.price);
        let (quotient, rest) = U512::div_rem(l * wide(self.price), below);
        narrow(if rest.is_zero() { quotient } else { quotient + U512::from(1) })
    }

    /// Returns the price after a sale of token 1.
    fn up(&self, net: U256) -> U256 {
        let moved = (wide(net) << 96) / wide(U256::from(self.liquidity));
        narrow(wide(self.price) + moved)
    }

    /// Returns the amount that the pool pays between two prices.
    fn between(&self, zero_for_one: bool, to: U256, up: bool) -> U256 {
        let liquidity = U256::from(self.liquidity);
        if zero_for_one {
            scaled(liquidity, self.price - to, U256::from(1) << 96, up)
        } else {
            scaled(liquidity << 96, to - self.price, to, up) / self.price
        }
    }
}

/// Returns the integer square root.
pub(super) fn root(value: U512) -> U256 {
    narrow(value.root(2))
}

/// Returns the square root of the price `of1 / of0` times 2^96, both in smallest units.
pub(super) fn sqrt_price(of0: U256, of1: U256) -> U256 {
    root((wide(of1) << 192) / wide(of0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> Range {
        let price = sqrt_price(U256::from(1), U256::from(4));
        Range {
            price,
            liquidity: 1_000_000_000_000_000_000,
            low: price / U256::from(2),
            high: price * U256::from(2),
            fee: 3_000,
        }
    }

    #[test]
    fn a_sale_pays_the_price_less_fee_and_impact() {
        let (range, amount) = (range(), U256::from(1_000_000_000_000u64));
        let moved = range.sell(true, amount);
        // The ideal output is four for one, less 0.3 %. The impact is tiny.
        let ideal = U256::from(3_988_000_000_000u64);
        assert!(moved.out < ideal && moved.out > ideal - U256::from(20_000_000), "{moved:?}");
        let back = Range { price: moved.after, ..range }.sell(false, moved.out);
        assert!(back.out < amount, "{back:?}");
        assert!(!moved.drained && moved.after < range.price);
    }

    #[test]
    fn a_range_that_is_used_up_takes_a_part() {
        let huge = U256::from(10).pow(U256::from(30));
        for zero_for_one in [true, false] {
            let moved = range().sell(zero_for_one, huge);
            assert!(moved.drained && moved.taken < huge && !moved.out.is_zero(), "{moved:?}");
        }
    }
}
