//! Conversion between a market's assets and shares. Virtual amounts prevent anyone from moving the share price of a
//! small market.

use alloy_primitives::{U256, uint};

use super::fixed_point::{mul_div_ceil, mul_div_floor};

/// Shares that every conversion adds to those of the market: `SharesMathLib.VIRTUAL_SHARES`.
pub const VIRTUAL_SHARES: U256 = uint!(1_000_000_U256);

/// Smallest units that every conversion adds to the market's assets: `SharesMathLib.VIRTUAL_ASSETS`.
pub const VIRTUAL_ASSETS: U256 = uint!(1_U256);

/// Converts between assets and shares; virtual amounts are included.
#[derive(Clone, Copy)]
pub(super) struct Conversion {
    assets: U256,
    shares: U256,
}

impl Conversion {
    pub(super) fn new(total_assets: U256, total_shares: U256) -> Option<Self> {
        Some(Self {
            assets: total_assets.checked_add(VIRTUAL_ASSETS)?,
            shares: total_shares.checked_add(VIRTUAL_SHARES)?,
        })
    }

    pub(super) fn assets_floor(&self, shares: U256) -> Option<U256> {
        mul_div_floor(shares, self.assets, self.shares)
    }

    pub(super) fn assets_ceil(&self, shares: U256) -> Option<U256> {
        mul_div_ceil(shares, self.assets, self.shares)
    }

    pub(super) fn shares_floor(&self, assets: U256) -> Option<U256> {
        mul_div_floor(assets, self.shares, self.assets)
    }

    pub(super) fn shares_ceil(&self, assets: U256) -> Option<U256> {
        mul_div_ceil(assets, self.shares, self.assets)
    }
}
