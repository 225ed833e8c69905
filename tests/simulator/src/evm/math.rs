//! The arithmetic of one range of liquidity in integers. A price is a square root times 2^96.

use alloy_primitives::{U256, U512, uint};

pub(super) const SQRT_MIN: U256 = uint!(4295128739_U256);
pub(super) const SQRT_MAX: U256 = uint!(1461446703485210103287273052203988822378723970342_U256);

/// The effect of a swap on a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SwapResult {
    /// The amount that the pool takes, including the fee.
    pub(super) input_taken: U256,
    pub(super) out: U256,
    pub(super) after: U256,
    /// Whether the liquidity of the range did not suffice.
    pub(super) is_drained: bool,
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

fn to_u512(value: U256) -> U512 {
    U512::from(value)
}

fn to_u256(value: U512) -> U256 {
    U256::checked_from_limbs_slice(value.as_limbs()).unwrap_or(U256::MAX)
}

/// Returns `a * b / c`, rounded down or up.
pub(super) fn mul_div(a: U256, b: U256, c: U256, up: bool) -> U256 {
    let (quotient, rest) = (to_u512(a) * to_u512(b)).div_rem(to_u512(c));
    to_u256(if up && !rest.is_zero() { quotient + U512::from(1) } else { quotient })
}

impl Range {
    /// Computes a sale of `amount` of token 0 or token 1.
    pub(super) fn sell(&self, zero_for_one: bool, amount: U256) -> SwapResult {
        let whole = U256::from(1_000_000);
        let kept = U256::from(1_000_000 - self.fee);
        let net = mul_div(amount, kept, whole, false);
        let liquidity = U256::from(self.liquidity);
        let next = if zero_for_one {
            self.price_after_sale_of_0(net)
        } else {
            self.price_after_sale_of_1(net)
        };
        let bound = if zero_for_one { self.low } else { self.high };
        let drained = if zero_for_one { next <= bound } else { next >= bound };
        if !drained {
            let out = self.output_between(zero_for_one, next, false);
            return SwapResult { input_taken: amount, out, after: next, is_drained: drained };
        }
        let out = self.output_between(zero_for_one, bound, false);
        let used = if zero_for_one {
            // amount0 = L * (1 / low - 1 / price)
            let part = mul_div(liquidity << 96, self.price - bound, self.price, true);
            part.div_ceil(bound)
        } else {
            mul_div(liquidity, bound - self.price, U256::from(1) << 96, true)
        };
        let taken = mul_div(used, whole, kept, true).min(amount);
        // Without liquidity, the price moves to the end of its scale.
        let after = if zero_for_one { SQRT_MIN + U256::from(1) } else { SQRT_MAX - U256::from(1) };
        SwapResult { input_taken: taken, out, after, is_drained: drained }
    }

    /// Returns the price after a sale of token 0.
    fn price_after_sale_of_0(&self, net: U256) -> U256 {
        let l: U512 = to_u512(U256::from(self.liquidity)) << 96_usize;
        let below = l + to_u512(net) * to_u512(self.price);
        let (quotient, rest) = U512::div_rem(l * to_u512(self.price), below);
        to_u256(if rest.is_zero() { quotient } else { quotient + U512::from(1) })
    }

    /// Returns the price after a sale of token 1.
    fn price_after_sale_of_1(&self, net: U256) -> U256 {
        let moved = (to_u512(net) << 96) / to_u512(U256::from(self.liquidity));
        to_u256(to_u512(self.price) + moved)
    }

    /// Returns the amount that the pool pays between two prices.
    fn output_between(&self, zero_for_one: bool, to: U256, up: bool) -> U256 {
        let liquidity = U256::from(self.liquidity);
        if zero_for_one {
            mul_div(liquidity, self.price - to, U256::from(1) << 96, up)
        } else {
            mul_div(liquidity << 96, to - self.price, to, up) / self.price
        }
    }
}

/// Returns the integer square root.
pub(super) fn integer_sqrt(value: U512) -> U256 {
    to_u256(value.root(2))
}

/// Returns the square root of the price `of1 / of0` times 2^96, both in smallest units.
pub(super) fn sqrt_price(of0: U256, of1: U256) -> U256 {
    integer_sqrt((to_u512(of1) << 192) / to_u512(of0))
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
        assert!(!moved.is_drained && moved.after < range.price);
    }

    #[test]
    fn a_range_that_is_used_up_takes_a_part() {
        let huge = U256::from(10).pow(U256::from(30));
        for zero_for_one in [true, false] {
            let moved = range().sell(zero_for_one, huge);
            assert!(
                moved.is_drained && moved.input_taken < huge && !moved.out.is_zero(),
                "{moved:?}"
            );
        }
    }
}
