//! The cost of a trade compared with the pool's price, and the least output that it must pay.
//!
//! All amounts are integers of smallest units. A cost is rounded up, because it counts against a limit. A floor, the
//! minimum output, is rounded down.

use alloy_primitives::{U256, Uint, uint};
use bursar_core::money::Bps;

/// Wide enough for the product of an amount (256 bits) and the square of a price's square root (160 bits).
type U640 = Uint<640, 10>;

const BPS_DENOMINATOR: U640 = uint!(10_000_U640);

/// Minimum number of units of both the input and the output of a small quote. With this many units, rounding changes
/// the rate of the quote by at most about two basis points.
const PROBE_UNITS_MIN: U256 = uint!(10_000_U256);

/// Denominator: a small quote uses at most a hundredth of the trade, because a larger quote would itself have an
/// impact.
const PROBE_DIVISOR_MIN: U256 = uint!(100_U256);

/// Maximum effect of rounding on a small quote, rounded up.
const PROBE_ROUNDING_MAX: Bps = Bps(3);

/// Hundredths of a basis point in a basis point.
const FEE_UNITS_PER_BPS: u32 = 100;

/// The price of one pool of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopPrice {
    /// Square root of the price of currency 0 in currency 1, times 2^96.
    pub sqrt_price_x96: U256,
    /// Whether the path sells currency 0 here.
    pub zero_for_one: bool,
}

/// Returns the output of `amount_in` at the pool's current price, without fee or impact.
///
/// The result is rounded up, so that a cost is never under-reported. `None` if the price is zero or the result exceeds
/// 256 bits.
pub fn ideal_out(sqrt_price_x96: U256, zero_for_one: bool, amount_in: U256) -> Option<U256> {
    if sqrt_price_x96.is_zero() {
        return None;
    }
    let sqrt = U640::from(sqrt_price_x96);
    // The price of currency 0 in currency 1 is `price / one`.
    let price = sqrt.checked_mul(sqrt)?;
    let one = U640::ONE.checked_shl(192)?;
    let (numerator, denominator) = if zero_for_one { (price, one) } else { (one, price) };
    to_u256(div_rounded_up(U640::from(amount_in).checked_mul(numerator)?, denominator)?)
}

/// Returns the output of `amount_in` through all pools of a path, as [`ideal_out`] computes it for each pool.
///
/// `None` also for an empty path.
pub fn ideal_out_of_path(hops: &[HopPrice], amount_in: U256) -> Option<U256> {
    let (first, rest) = hops.split_first()?;
    let pay = |hop: &HopPrice, amount| ideal_out(hop.sqrt_price_x96, hop.zero_for_one, amount);
    rest.iter().try_fold(pay(first, amount_in)?, |amount, hop| pay(hop, amount))
}

/// Returns the input for a small quote ("dust"), whose rate shows the price before the trade's own impact.
///
/// It is the smallest amount such that input and expected output both have at least 10,000 units. Returns `None` if
/// that amount exceeds a hundredth of the trade, because the small quote's own impact would then hide the trade's
/// impact.
pub fn probe_amount(amount_in: U256, quoted_out: U256) -> Option<U256> {
    if quoted_out.is_zero() {
        return None;
    }
    let for_output = PROBE_UNITS_MIN.checked_mul(amount_in)?.div_ceil(quoted_out);
    let dust = for_output.max(PROBE_UNITS_MIN);
    (dust <= amount_in.checked_div(PROBE_DIVISOR_MIN)?).then_some(dust)
}

/// Returns the fraction of `ideal` by which a trade pays less, rounded up.
///
/// `None` if `ideal` is zero or `out` exceeds `ideal`: such a price cannot be true.
pub fn cost_bps(ideal: U256, out: U256) -> Option<Bps> {
    let missing = ideal.checked_sub(out)?;
    bps_rounded_up(U640::from(missing), U640::from(ideal))
}

/// The quotes and prices from which the cost of a trade is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TradeMeasurement {
    /// The whole input.
    pub amount_in: U256,
    /// The quote for the whole input.
    pub amount_out: U256,
    /// The output at the pools' current prices ([`ideal_out_of_path`]); `None` if a price could not be read.
    pub ideal: Option<U256>,
    /// A small quote through the same pools; `None` if there is none.
    pub probe: Option<PriceProbe>,
    /// The sum of the pools' fees, in hundredths of a basis point; `None` if a hook may decide a fee.
    pub fee: Option<u32>,
}

/// A small quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceProbe {
    /// At least [`probe_amount`], at most a hundredth of the trade.
    pub amount_in: U256,
    /// The output of the quote.
    pub amount_out: U256,
}

/// The cost of a trade, compared with the price before the trade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Impact {
    /// The higher of two measured costs: see [`impact`].
    Known {
        /// Fee and price impact together, rounded up.
        cost: Bps,
        /// The fee alone, which is part of `cost`, rounded up; `None` if unknown.
        fee: Option<Bps>,
    },
    /// The cost is unknown, or the quote is better than the pool's own price. A trade must not continue.
    Unknown,
}

impl Impact {
    /// Returns the cost without the fee; the whole cost if the fee is unknown.
    pub fn without_fee(self) -> Option<Bps> {
        match self {
            Self::Known { cost, fee } => {
                Some(Bps(cost.0.saturating_sub(fee.map_or(0, |fee| fee.0))))
            }
            Self::Unknown => None,
        }
    }
}

/// Returns the higher of two measured costs of a trade.
///
/// The first compares the quote with the pools' current prices, and includes the fee. The second compares the quote
/// with a small quote, and the fee is added. A hook can falsify either of them, so the lower cost proves nothing.
pub fn impact(trade: &TradeMeasurement) -> Impact {
    let fee = trade.fee.and_then(fee_bps);
    let by_price = match trade.ideal {
        None => None,
        Some(ideal) => match cost_bps(ideal, trade.amount_out) {
            Some(cost) => Some(cost),
            None => return Impact::Unknown,
        },
    };
    // If the fee is unknown, the small quote still gives a lower bound of the cost.
    let least_fee = fee.or(by_price.map(|_cost| Bps(0)));
    let by_dust = trade.probe.and_then(|dust| probe_cost(trade, dust)).zip(least_fee).map(add_fee);
    match by_price.max(by_dust) {
        Some(cost) => Impact::Known { cost, fee },
        None => Impact::Unknown,
    }
}

/// Returns the minimum output of a swap: `expected × (10,000 − slippage) / 10,000`, rounded down.
///
/// No other function subtracts the slippage. `None` if the slippage exceeds 100 %.
pub fn floor_out(expected: U256, slippage: Bps) -> Option<U256> {
    let kept = 10_000_u16.checked_sub(slippage.0)?;
    let product = U640::from(expected).checked_mul(U640::from(kept))?;
    to_u256(product.checked_div(BPS_DENOMINATOR)?)
}

/// Returns a hop's minimum price for the Universal Router: `min_out × 10^36 / amount_in`, rounded down.
///
/// The router rounds the realised price down in the same way, so it never reverts a swap that pays `min_out`. `None`
/// if `amount_in` is zero or the price exceeds 256 bits.
pub fn min_hop_price_x36(amount_in: U256, min_out: U256) -> Option<U256> {
    const TEN_TO_36: U640 = uint!(1_000_000_000_000_000_000_000_000_000_000_000_000_U640);
    let scaled = U640::from(min_out).checked_mul(TEN_TO_36)?;
    to_u256(scaled.checked_div(U640::from(amount_in))?)
}

/// Returns the impact of the trade compared with a small quote, without the fee; `None` if the small quote is unusable.
fn probe_cost(trade: &TradeMeasurement, dust: PriceProbe) -> Option<Bps> {
    let smallest = probe_amount(trade.amount_in, trade.amount_out)?;
    let largest = trade.amount_in.checked_div(PROBE_DIVISOR_MIN)?;
    if dust.amount_in < smallest || dust.amount_in > largest || dust.amount_out.is_zero() {
        return None;
    }
    let paid = U640::from(trade.amount_out).checked_mul(U640::from(dust.amount_in))?;
    let due = U640::from(dust.amount_out).checked_mul(U640::from(trade.amount_in))?;
    if paid <= due {
        return bps_rounded_up(due.checked_sub(paid)?, due);
    }
    // The small quote has a worse rate than the trade. A small gap is rounding; a larger gap means a falsified quote.
    let gap = bps_rounded_up(paid.checked_sub(due)?, paid)?;
    (gap <= PROBE_ROUNDING_MAX).then_some(Bps(0))
}

fn fee_bps(fee: u32) -> Option<Bps> {
    u16::try_from(fee.div_ceil(FEE_UNITS_PER_BPS)).ok().map(Bps)
}

fn add_fee((impact, fee): (Bps, Bps)) -> Bps {
    Bps(impact.0.saturating_add(fee.0).min(10_000))
}

fn bps_rounded_up(part: U640, whole: U640) -> Option<Bps> {
    let bps = div_rounded_up(part.checked_mul(BPS_DENOMINATOR)?, whole)?;
    u16::try_from(bps).ok().map(Bps)
}

fn div_rounded_up(numerator: U640, denominator: U640) -> Option<U640> {
    let quotient = numerator.checked_div(denominator)?;
    let rest = numerator.checked_rem(denominator)?;
    if rest.is_zero() { Some(quotient) } else { quotient.checked_add(U640::ONE) }
}

fn to_u256(value: U640) -> Option<U256> {
    U256::checked_from_limbs_slice(value.as_limbs())
}

#[cfg(test)]
mod tests;
