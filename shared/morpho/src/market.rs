//! A market of Morpho Blue: its id, its interest, its shares and its free liquidity.
//!
//! The arithmetic equals that of `Morpho.sol`, `MathLib.sol` and `SharesMathLib.sol` of Morpho Blue 1.0 to the unit:
//! it has the same steps and roundings, and returns `None` or a fault where the contract reverts. A [`Market`] as read
//! has no conversions: interest must be accrued first, so that no amount is computed from stale totals.

mod accrual;
mod conversion;
mod fixed_point;
mod params;
mod totals;

pub use accrual::{AccrualFault, AccruedMarket, BorrowRate, FEE_MAX};
pub use conversion::{VIRTUAL_ASSETS, VIRTUAL_SHARES};
pub use fixed_point::WAD;
pub(crate) use fixed_point::mul_div_ceil;
pub use params::MarketParams;
pub use totals::Market;

#[cfg(test)]
mod tests;
