//! The assets that a depositor can withdraw from a vault now, and the penalty of a forced deallocation.
//!
//! The vault's own previews ([`crate::views::vault`]) convert between shares and assets, and include interest and fees
//! that are due. This module never computes a share price from totals.

use alloy_primitives::{U256, uint};

use crate::market::{WAD, mul_div_ceil};

/// Largest penalty of a `forceDeallocate`, with 18 decimals: 2 %.
pub const FORCE_DEALLOCATE_PENALTY_MAX: U256 = uint!(20_000_000_000_000_000_U256);

/// The source from which the liquidity adapter of a Vault V2 serves a withdrawal.
///
/// Amounts are in smallest units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiquiditySource {
    /// The vault has no liquidity adapter: the address is zero.
    Absent,
    /// The vault's market adapter lends to the market of `liquidityData`.
    Market {
        /// The adapter's `expectedSupplyAssets` of that market.
        supplied: U256,
        /// The market's [liquidity](crate::market::AccruedMarket::liquidity).
        liquidity: U256,
    },
    /// The adapter lends to a MetaMorpho vault. `max_withdraw` is that vault's `maxWithdraw` of the adapter.
    MetaMorpho { max_withdraw: U256 },
    /// The adapter is of another kind, or its data names no market. Its money counts as unavailable.
    Unknown,
}

impl LiquiditySource {
    /// Returns the assets that the adapter can give, in smallest units.
    pub fn available(&self) -> U256 {
        match *self {
            Self::Absent | Self::Unknown => U256::ZERO,
            Self::Market { supplied, liquidity } => supplied.min(liquidity),
            Self::MetaMorpho { max_withdraw } => max_withdraw,
        }
    }
}

/// Returns the largest single withdrawal that a Vault V2 can pay, in smallest units.
///
/// `idle` is the vault's own balance of the asset. A withdrawal takes nothing from adapters other than the liquidity
/// adapter. The vault's `max…` functions cannot be used: they always return zero. `None` if the sum exceeds 256 bits.
pub fn v2_liquidity(idle: U256, source: &LiquiditySource) -> Option<U256> {
    idle.checked_add(source.available())
}

/// Returns the assets that one depositor can withdraw from a Vault V2 now, in smallest units.
///
/// `worth` is `previewRedeem` of the depositor's shares. `None` if a sum exceeds 256 bits.
pub fn v2_withdrawable(worth: U256, idle: U256, source: &LiquiditySource) -> Option<U256> {
    Some(worth.min(v2_liquidity(idle, source)?))
}

/// Returns the assets that one depositor can withdraw from a MetaMorpho vault now, in smallest units.
///
/// `max_withdraw` is the vault's own answer, which respects its markets' liquidity. `worth` is `previewRedeem` of the
/// depositor's shares; `max_withdraw` of an honest vault does not exceed it.
pub fn metamorpho_withdrawable(worth: U256, max_withdraw: U256) -> U256 {
    worth.min(max_withdraw)
}

/// Returns the penalty of a `forceDeallocate` of `assets`, in smallest units, rounded up as the vault does.
///
/// `penalty_e18` is the adapter's `forceDeallocatePenalty`, with 18 decimals. `None` if it exceeds 2 %, or if the
/// product exceeds 256 bits.
pub fn force_deallocate_cost(assets: U256, penalty_e18: U256) -> Option<U256> {
    if penalty_e18 > FORCE_DEALLOCATE_PENALTY_MAX {
        return None;
    }
    mul_div_ceil(assets, penalty_e18, WAD)
}

#[cfg(test)]
mod tests;
