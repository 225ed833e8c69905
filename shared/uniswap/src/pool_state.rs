//! The state of a pool at one block.

use alloy_primitives::U256;

/// The state of a pool: its current price, its fees and its liquidity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState {
    /// Square root of the price of currency 0 in currency 1, both in smallest units, times 2^96.
    pub sqrt_price_x96: U256,
    /// The fee in force, in hundredths of a basis point; `None` for v3, where the pool's fee is fixed.
    pub lp_fee: Option<u32>,
    /// The protocol fees of both directions, as v4 packs them; `None` for v3.
    ///
    /// v3 takes the protocol fee out of the pool's fee.
    pub protocol_fee: Option<u32>,
    /// Liquidity at the current price; other price ranges may have more.
    pub liquidity: u128,
}
