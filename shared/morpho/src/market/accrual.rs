//! Accrues the interest since a market's last update, and converts between shares and assets at that time.

use alloy_primitives::{U256, uint};

use super::conversion::Conversion;
use super::fixed_point::{compound_interest, wad_mul};
use super::totals::Market;

/// Largest fee of a market, with 18 decimals: 25 %, as `ConstantsLib.MAX_FEE`.
pub const FEE_MAX: U256 = uint!(250_000_000_000_000_000_U256);

/// The interest that borrowers pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BorrowRate {
    /// The market has no interest rate model, so it never pays interest.
    NoModel,
    /// The answer of the model's `borrowRateView`, per second with 18 decimals.
    PerSecond(U256),
}

/// Why interest cannot be accrued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccrualFault {
    #[error("the market does not exist")]
    NoMarket,
    #[error("the market was updated after the given time")]
    TimeBackwards,
    #[error("the market's fee exceeds 25 %, which the contract does not allow")]
    Fee,
    #[error("the market's interest exceeds what the contract can count")]
    Overflow,
}

impl Market {
    /// Returns the totals at `now_s`, in unix seconds of chain time, as `_accrueInterest` would store them.
    ///
    /// # Errors
    /// The market does not exist, `now_s` is before the last update, or an amount overflows: the contract reverts in
    /// these cases. A fee that the contract does not allow is an error, too.
    pub fn accrue(&self, rate: BorrowRate, now_s: u64) -> Result<AccruedMarket, AccrualFault> {
        if self.last_update == 0 {
            return Err(AccrualFault::NoMarket);
        }
        if U256::from(self.fee_e18) > FEE_MAX {
            return Err(AccrualFault::Fee);
        }
        let elapsed_s =
            u128::from(now_s).checked_sub(self.last_update).ok_or(AccrualFault::TimeBackwards)?;
        let mut totals = Self { last_update: u128::from(now_s), ..*self };
        match rate {
            BorrowRate::PerSecond(rate) if elapsed_s > 0 && self.total_borrow_assets > 0 => {
                totals.add_interest(rate, U256::from(elapsed_s)).ok_or(AccrualFault::Overflow)?;
            }
            BorrowRate::PerSecond(_) | BorrowRate::NoModel => {}
        }
        Ok(AccruedMarket { totals })
    }

    fn add_interest(&mut self, rate: U256, elapsed_s: U256) -> Option<()> {
        let interest =
            wad_mul(U256::from(self.total_borrow_assets), compound_interest(rate, elapsed_s)?)?;
        let stored = u128::try_from(interest).ok()?;
        self.total_borrow_assets = self.total_borrow_assets.checked_add(stored)?;
        self.total_supply_assets = self.total_supply_assets.checked_add(stored)?;
        if self.fee_e18 == 0 {
            return Some(());
        }
        // Like `Morpho.sol`, this prices the fee's shares as if the fee were not yet part of the assets.
        let fee = wad_mul(interest, U256::from(self.fee_e18))?;
        let others = U256::from(self.total_supply_assets).checked_sub(fee)?;
        let conversion = Conversion::new(others, U256::from(self.total_supply_shares))?;
        let fee_shares = u128::try_from(conversion.shares_floor(fee)?).ok()?;
        self.total_supply_shares = self.total_supply_shares.checked_add(fee_shares)?;
        Some(())
    }
}

/// A market with interest accrued up to a known time: the only form that converts between shares and assets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccruedMarket {
    totals: Market,
}

impl AccruedMarket {
    /// Returns the totals; their last update is the time of accrual.
    pub fn totals(&self) -> &Market {
        &self.totals
    }

    /// Returns the assets that a withdrawal of `shares` pays, in smallest units, rounded down.
    ///
    /// `None` if the product exceeds 256 bits: the contract reverts in this case.
    pub fn assets_floor(&self, shares: U256) -> Option<U256> {
        self.conversion()?.assets_floor(shares)
    }

    /// Returns the assets that a supply by `shares` costs, in smallest units, rounded up.
    ///
    /// `None` if the product exceeds 256 bits: the contract reverts in this case.
    pub fn assets_ceil(&self, shares: U256) -> Option<U256> {
        self.conversion()?.assets_ceil(shares)
    }

    /// Returns the shares that a supply of `assets` mints, rounded down.
    ///
    /// `assets` are in smallest units. `None` if the product exceeds 256 bits: the contract reverts in this case.
    pub fn shares_floor(&self, assets: U256) -> Option<U256> {
        self.conversion()?.shares_floor(assets)
    }

    /// Returns the shares that a withdrawal of `assets` burns, rounded up.
    ///
    /// `assets` are in smallest units. `None` if the product exceeds 256 bits: the contract reverts in this case.
    pub fn shares_ceil(&self, assets: U256) -> Option<U256> {
        self.conversion()?.shares_ceil(assets)
    }

    /// Returns the assets that are not borrowed, in smallest units.
    ///
    /// The result is zero if debt exceeds assets, which the contract does not allow.
    pub fn liquidity(&self) -> U256 {
        U256::from(self.totals.total_supply_assets.saturating_sub(self.totals.total_borrow_assets))
    }

    /// Returns the assets that a lender with `supply_shares` can withdraw now, in smallest units.
    ///
    /// The result is the smaller of the lender's assets and the market's liquidity. A full exit states shares,
    /// because an amount of assets could leave some shares behind.
    ///
    /// `None` if the product exceeds 256 bits.
    pub fn withdrawable(&self, supply_shares: U256) -> Option<U256> {
        Some(self.assets_floor(supply_shares)?.min(self.liquidity()))
    }

    fn conversion(&self) -> Option<Conversion> {
        let (assets, shares) = (self.totals.total_supply_assets, self.totals.total_supply_shares);
        Conversion::new(U256::from(assets), U256::from(shares))
    }
}
