//! Ticks: v3 pools report their average price as a tick, which is an exponent of 1.0001.

use alloy_primitives::{U256, Uint, uint};
use bursar_core::money::Bps;

/// Largest tick, whose negative is the smallest tick: `TickMath.MAX_TICK`.
pub const TICK_MAX: i32 = 887_272;

/// For each bit of a tick, `2^128 / sqrt(1.0001)^(2^bit)`. Source: `TickMath` of v3-core.
const SQRT_PRICE_FACTORS: [U256; 20] = uint!([
    0xfffcb933bd6fad37aa2d162d1a594001_U256,
    0xfff97272373d413259a46990580e213a_U256,
    0xfff2e50f5f656932ef12357cf3c7fdcc_U256,
    0xffe5caca7e10e4e61c3624eaa0941cd0_U256,
    0xffcb9843d60f6159c9db58835c926644_U256,
    0xff973b41fa98c081472e6896dfb254c0_U256,
    0xff2ea16466c96a3843ec78b326b52861_U256,
    0xfe5dee046a99a2a811c461f1969c3053_U256,
    0xfcbe86c7900a88aedcffc83b479aa3a4_U256,
    0xf987a7253ac413176f2b074cf7815e54_U256,
    0xf3392b0822b70005940c7a398e4b70f3_U256,
    0xe7159475a2c29b7443b29c7fa6e889d9_U256,
    0xd097f3bdfd2022b8845ad8f792aa5825_U256,
    0xa9f746462d870fdf8a65dc1f90e061e5_U256,
    0x70d869a156d2a1b890bb3df62baf32f7_U256,
    0x31be135f97d08fd981231505542fcfa6_U256,
    0x9aa508b5b7a84e1c677de54f3e99bc9_U256,
    0x5d6af8dedb81196699c329225ee604_U256,
    0x2216e584f5fa1ea926041bedfe98_U256,
    0x48a170391f7dc42444e8fa2_U256,
]);

/// Returns the square root of a tick's price of token 0 in token 1, times 2^96, as the pools round it.
///
/// `None` if no pool reaches the tick.
pub fn sqrt_price_at(tick: i32) -> Option<U256> {
    let size = tick.unsigned_abs();
    if size > TICK_MAX.unsigned_abs() {
        return None;
    }
    // `ratio` becomes sqrt(price) at tick `-size`, times 2^128.
    let mut ratio = U256::ONE.checked_shl(128)?;
    for (bit, factor) in SQRT_PRICE_FACTORS.iter().enumerate() {
        if size & 1_u32.checked_shl(u32::try_from(bit).ok()?)? != 0 {
            ratio = ratio.checked_mul(*factor)?.wrapping_shr(128);
        }
    }
    if tick > 0 {
        ratio = U256::MAX.checked_div(ratio)?;
    }
    Some(ratio.div_ceil(U256::ONE.checked_shl(32)?))
}

/// Returns the relative difference of two prices that are `ticks` apart, rounded up.
///
/// The result is relative to the price that is `ticks` lower. It is at most [`u16::MAX`] basis points, which is also
/// the result for prices that no pool reaches.
pub fn price_deviation(ticks: i32) -> Bps {
    sqrt_price_at(ticks).and_then(deviation_from_one).unwrap_or(Bps(u16::MAX))
}

/// Returns the difference between one and the price with this square root, rounded up.
fn deviation_from_one(sqrt_x96: U256) -> Option<Bps> {
    let sqrt = Uint::<384, 6>::from(sqrt_x96);
    let one = Uint::<384, 6>::ONE.checked_shl(192)?;
    let price = sqrt.checked_mul(sqrt)?;
    let apart = price.abs_diff(one).checked_mul(uint!(10_000_U384))?;
    u16::try_from(apart.div_ceil(one)).ok().map(Bps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{SQRT_PRICE_MAX, SQRT_PRICE_MIN};
    use proptest::prelude::*;

    #[test]
    fn the_root_of_a_tick_is_that_of_the_pools() {
        // The first and last rows are constants of `TickMath`. The other roots are 1.0001^(tick/2), computed with 100
        // digits.
        for (tick, root) in [
            (-TICK_MAX, SQRT_PRICE_MIN),
            (-1, uint!(79224201403219477170569942574_U256)),
            (0, uint!(79228162514264337593543950336_U256)),
            (1, uint!(79232123823359799118286999568_U256)),
            (TICK_MAX, SQRT_PRICE_MAX),
        ] {
            assert_eq!(sqrt_price_at(tick), Some(root), "{tick}");
        }
        assert_eq!((sqrt_price_at(TICK_MAX + 1), sqrt_price_at(i32::MIN)), (None, None));
    }

    #[test]
    fn a_distance_is_a_share_of_the_lower_tick_rounded_up() {
        // 1.0001^295 = 1.029938, 1.0001^296 = 1.030041, 1.0001^-304 = 0.970059, 1.0001^-305 = 0.969962.
        for (ticks, bps) in [
            (0, 0),
            // One tick is one basis point; the rounding of the root adds another.
            (1, 2),
            (-1, 1),
            (294, 299),
            (295, 300),
            (296, 301),
            (-303, 299),
            (-304, 300),
            (-305, 301),
            // A price eight times as high differs by 70,000 basis points, which exceed `u16::MAX`.
            (20_795, u16::MAX),
            (-TICK_MAX, 10_000),
            (TICK_MAX, u16::MAX),
            (i32::MAX, u16::MAX),
            (i32::MIN, u16::MAX),
        ] {
            assert_eq!(price_deviation(ticks), Bps(bps), "{ticks}");
        }
    }

    proptest! {
        #[test]
        fn roots_rise_with_their_ticks(tick in -TICK_MAX..TICK_MAX) {
            let (here, next) = (sqrt_price_at(tick).unwrap(), sqrt_price_at(tick + 1).unwrap());
            prop_assert!(here < next);
            // One tick changes the root by half a basis point: (here / next)^2 = 1 / 1.0001, within the rounding.
            let exact = Uint::<512, 8>::from(next).pow(Uint::from(2)) * Uint::from(10_000);
            let stepped = Uint::<512, 8>::from(here).pow(Uint::from(2)) * Uint::from(10_001);
            let apart = exact.abs_diff(stepped);
            // The relative rounding error of a root of at least 32 bits is below 2^-30.
            prop_assert!(apart < exact >> 28, "{here} {next}");
        }

        #[test]
        fn opposite_ticks_have_reciprocal_roots(tick in 0..300_000) {
            let (up, down) = (sqrt_price_at(tick).unwrap(), sqrt_price_at(-tick).unwrap());
            let product = Uint::<512, 8>::from(up) * Uint::<512, 8>::from(down);
            let one = Uint::<512, 8>::ONE << 192;
            prop_assert!(product.abs_diff(one) < one >> 60);
        }
    }
}
