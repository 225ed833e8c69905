//! Products and quotients with 18 decimals, and the contract's Taylor series for compound interest.

use alloy_primitives::{U256, uint};

/// The number one with the 18 decimals of rates, fees and penalties: `MathLib.WAD`.
pub const WAD: U256 = uint!(1_000_000_000_000_000_000_U256);

/// Returns the interest on one unit of debt, with 18 decimals, as `MathLib.wTaylorCompounded` does.
pub(super) fn compound_interest(rate: U256, elapsed_s: U256) -> Option<U256> {
    let first = rate.checked_mul(elapsed_s)?;
    let second = mul_div_floor(first, first, WAD.checked_mul(uint!(2_U256))?)?;
    let third = mul_div_floor(second, first, WAD.checked_mul(uint!(3_U256))?)?;
    first.checked_add(second)?.checked_add(third)
}

pub(super) fn wad_mul(a: U256, b: U256) -> Option<U256> {
    mul_div_floor(a, b, WAD)
}

pub(super) fn mul_div_floor(a: U256, b: U256, divisor: U256) -> Option<U256> {
    a.checked_mul(b)?.checked_div(divisor)
}

pub(crate) fn mul_div_ceil(a: U256, b: U256, divisor: U256) -> Option<U256> {
    let almost_one = divisor.checked_sub(U256::ONE)?;
    a.checked_mul(b)?.checked_add(almost_one)?.checked_div(divisor)
}
