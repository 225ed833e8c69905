//! The totals of a market as the singleton stores them.

use crate::abi::blue::AbiMarket;

/// The totals of a market as of its last update, as the singleton stores them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Market {
    /// Assets of all lenders, in smallest units.
    pub total_supply_assets: u128,
    /// Shares of all lenders.
    pub total_supply_shares: u128,
    /// Debt of all borrowers, in smallest units.
    pub total_borrow_assets: u128,
    /// Shares of all borrowers.
    pub total_borrow_shares: u128,
    /// Unix seconds of chain time; zero for a market that does not exist.
    pub last_update: u128,
    /// The part of the interest that Morpho keeps, with 18 decimals.
    pub fee_e18: u128,
}

impl Market {
    pub(crate) fn to_abi(self) -> AbiMarket {
        AbiMarket {
            totalSupplyAssets: self.total_supply_assets,
            totalSupplyShares: self.total_supply_shares,
            totalBorrowAssets: self.total_borrow_assets,
            totalBorrowShares: self.total_borrow_shares,
            lastUpdate: self.last_update,
            fee: self.fee_e18,
        }
    }

    pub(crate) fn from_abi(market: &AbiMarket) -> Self {
        Self {
            total_supply_assets: market.totalSupplyAssets,
            total_supply_shares: market.totalSupplyShares,
            total_borrow_assets: market.totalBorrowAssets,
            total_borrow_shares: market.totalBorrowShares,
            last_update: market.lastUpdate,
            fee_e18: market.fee,
        }
    }
}
