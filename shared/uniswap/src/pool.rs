//! The pools of Uniswap: a v3 pool by its tokens and fee, a v4 pool by its key.

use alloy_primitives::aliases::{I24, U24};
use alloy_primitives::{Address, B256, keccak256};
use alloy_sol_types::SolValue;
use bursar_core::networks::UniswapV3;

use crate::abi;
use crate::currency::Currency;
use crate::hooks::HookPermissions;
use crate::pool_state::PoolState;

/// 100 % in the unit of fees, which is a hundredth of a basis point.
pub const FEE_DENOMINATOR: u32 = 1_000_000;

/// The fee field of a v4 pool key if the pool or its hook decides the real fee.
pub const DYNAMIC_FEE: u32 = 0x80_0000;

/// Largest tick spacing of a v4 pool.
const TICK_SPACING_MAX: i32 = 32_767;

/// A fee, and the usual tick spacing of pools with this fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeTier {
    /// Hundredths of a basis point.
    pub fee: u32,
    /// Distance between usable ticks; one tick is a step of one basis point.
    pub tick_spacing: i32,
}

/// The usual pairs of fee and tick spacing, from the lowest fee.
pub const FEE_TIERS: [FeeTier; 4] = [
    FeeTier { fee: 100, tick_spacing: 1 },
    FeeTier { fee: 500, tick_spacing: 10 },
    FeeTier { fee: 3_000, tick_spacing: 60 },
    FeeTier { fee: 10_000, tick_spacing: 200 },
];

/// Why a pool cannot exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolFault {
    #[error("a pool needs two different tokens")]
    SameCurrency,
    #[error("a v3 pool cannot trade the native coin: use the wrapped token")]
    NativeInV3,
    #[error(
        "the pool fee {0} is too high: it counts hundredths of a basis point, and 1000000 is 100 %"
    )]
    Fee(u32),
    #[error("the tick spacing {0} is out of range: 1 to 32767")]
    TickSpacing(i32),
}

/// A v3 pool: two tokens in ascending order, and a fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct V3Pool {
    token0: Address,
    token1: Address,
    fee: u32,
}

impl V3Pool {
    /// Creates the key of the pool of two tokens, in any order.
    ///
    /// `fee` counts hundredths of a basis point.
    ///
    /// # Errors
    /// The tokens are equal, one is the zero address, or the fee is a million or more.
    pub fn new(token_a: Address, token_b: Address, fee: u32) -> Result<Self, PoolFault> {
        if token_a.is_zero() || token_b.is_zero() {
            return Err(PoolFault::NativeInV3);
        }
        if token_a == token_b {
            return Err(PoolFault::SameCurrency);
        }
        if fee >= FEE_DENOMINATOR {
            return Err(PoolFault::Fee(fee));
        }
        Ok(Self { token0: token_a.min(token_b), token1: token_a.max(token_b), fee })
    }

    /// Returns the token with the lower address.
    pub fn token0(&self) -> Address {
        self.token0
    }

    /// Returns the token with the higher address.
    pub fn token1(&self) -> Address {
        self.token1
    }

    /// Returns the fee in hundredths of a basis point.
    pub fn fee(&self) -> u32 {
        self.fee
    }

    /// Returns whether a swap of `input` sells token 0; `None` if the pool does not trade `input`.
    pub fn zero_for_one(&self, input: Address) -> Option<bool> {
        is_zero_for_one(input, self.token0, self.token1)
    }

    /// Returns the address at which the factory creates the pool.
    ///
    /// The pool may not exist: check with the factory's `getPool`.
    pub fn address(&self, v3: &UniswapV3) -> Address {
        let salt = keccak256((self.token0, self.token1, self.fee).abi_encode());
        v3.factory.create2(salt, v3.pool_code_hash)
    }

    pub(crate) fn abi_fee(&self) -> U24 {
        U24::saturating_from(self.fee)
    }
}

/// The key of a v4 pool, with its currencies in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolKey {
    currency0: Currency,
    currency1: Currency,
    fee: u32,
    tick_spacing: i32,
    hooks: Address,
}

impl PoolKey {
    /// Creates the key of the pool of two currencies, in any order.
    ///
    /// `fee` counts hundredths of a basis point or is [`DYNAMIC_FEE`]; the zero address means no hooks.
    ///
    /// # Errors
    /// The currencies are equal, or the fee or the tick spacing is out of range.
    pub fn new(
        a: Currency,
        b: Currency,
        fee: u32,
        tick_spacing: i32,
        hooks: Address,
    ) -> Result<Self, PoolFault> {
        if a == b {
            return Err(PoolFault::SameCurrency);
        }
        if fee > FEE_DENOMINATOR && fee != DYNAMIC_FEE {
            return Err(PoolFault::Fee(fee));
        }
        if !(1..=TICK_SPACING_MAX).contains(&tick_spacing) {
            return Err(PoolFault::TickSpacing(tick_spacing));
        }
        Ok(Self { currency0: a.min(b), currency1: a.max(b), fee, tick_spacing, hooks })
    }

    /// Returns the currency with the lower address: the native coin, if the pool trades it.
    pub fn currency0(&self) -> Currency {
        self.currency0
    }

    /// Returns the currency with the higher address.
    pub fn currency1(&self) -> Currency {
        self.currency1
    }

    /// Returns the fee field of the key, in hundredths of a basis point, or [`DYNAMIC_FEE`].
    pub fn fee(&self) -> u32 {
        self.fee
    }

    /// Returns the distance between usable ticks.
    pub fn tick_spacing(&self) -> i32 {
        self.tick_spacing
    }

    /// Returns the hook contract; zero for none.
    pub fn hooks(&self) -> Address {
        self.hooks
    }

    /// Returns the rights of the pool's hook.
    pub fn hook_permissions(&self) -> HookPermissions {
        HookPermissions::of(self.hooks)
    }

    /// Returns whether the pool or its hook decides the fee.
    pub fn is_dynamic_fee(&self) -> bool {
        self.fee == DYNAMIC_FEE
    }

    /// Returns the pool's id: Keccak-256 of the key's five words.
    pub fn id(&self) -> B256 {
        keccak256(self.to_abi().abi_encode())
    }

    /// Returns whether a swap of `input` sells currency 0; `None` if the pool does not trade `input`.
    pub fn zero_for_one(&self, input: Currency) -> Option<bool> {
        is_zero_for_one(input, self.currency0, self.currency1)
    }

    /// Returns the share of the input that the pool takes, in hundredths of a basis point, rounded up.
    ///
    /// The protocol's fee is included.
    ///
    /// `None` if the hook may set the fee of a swap or change its amounts.
    pub fn swap_fee(&self, state: &PoolState, zero_for_one: bool) -> Option<u32> {
        let hook = self.hook_permissions();
        if hook.changes_amounts() || (self.is_dynamic_fee() && hook.before_swap()) {
            return None;
        }
        let lp_fee = if self.is_dynamic_fee() { state.lp_fee? } else { self.fee };
        // Each direction has twelve bits: see `ProtocolFeeLibrary` of v4-core.
        let both = state.protocol_fee?;
        let protocol_fee = if zero_for_one { both & 0xfff } else { both >> 12_u32 };
        let overlap = protocol_fee.checked_mul(lp_fee)?.checked_div(FEE_DENOMINATOR)?;
        protocol_fee.checked_add(lp_fee)?.checked_sub(overlap)
    }

    pub(crate) fn abi_fee(&self) -> U24 {
        U24::saturating_from(self.fee)
    }

    pub(crate) fn abi_tick_spacing(&self) -> I24 {
        // The tick spacing is never negative, so its raw bits are the number.
        I24::from_raw(U24::saturating_from(self.tick_spacing.unsigned_abs()))
    }

    pub(crate) fn to_abi(self) -> abi::v4::PoolKey {
        abi::v4::PoolKey {
            currency0: self.currency0.address(),
            currency1: self.currency1.address(),
            fee: self.abi_fee(),
            tickSpacing: self.abi_tick_spacing(),
            hooks: self.hooks,
        }
    }
}

fn is_zero_for_one<T: PartialEq>(input: T, zero: T, one: T) -> Option<bool> {
    if input == zero {
        Some(true)
    } else if input == one {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
