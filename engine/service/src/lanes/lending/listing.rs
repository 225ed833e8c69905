//! The curated venues of a network, as agents see them.

use alloy_primitives::B256;
use bursar_morpho::{MarketParams, VenueId};

use super::vault_read::VaultFacts;

/// The curated venues of a network.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// When the list was read, by [`Moment::age_clock_ms`](bursar_core::time::Moment::age_clock_ms).
    pub(super) at_ms: u64,
    /// The vaults of our table and of the wallet, trusted or not, and the vaults of trusted curators.
    pub vaults: Vec<VaultFacts>,
    pub markets: Vec<ListedMarket>,
}

/// A market to which a trusted vault lends.
#[derive(Debug, Clone)]
pub struct ListedMarket {
    pub id: B256,
    pub params: MarketParams,
    /// The symbol that the collateral token reports.
    pub collateral_symbol: String,
    /// Like `WETH / 86.0%`.
    pub name: String,
    /// The loan-to-value limit in percent, like `86.0`.
    pub lltv_percent: String,
    /// The name of the vault that lends to the market; empty if it is not known.
    pub endorsed_by: String,
}

impl Listing {
    /// Returns all venues of the list that Bursar trusts.
    pub fn venues(&self) -> impl Iterator<Item = VenueId> {
        let vaults = self
            .vaults
            .iter()
            .filter(|venue| venue.is_trusted())
            .map(|venue| VenueId::Vault(venue.address));
        vaults.chain(self.markets.iter().map(|market| VenueId::Market(market.id)))
    }
}
