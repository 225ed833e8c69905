//! An address's positions in the venues of one network, and the amounts that it can withdraw now.

use alloy_primitives::{Address, U256};
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;
use bursar_morpho::VenueId;

use super::known::KnownVenues;
use super::lane::Lending;
use super::network_read::LoanTarget;
use super::venue_read::Preview;

/// A venue, and an address's position in it.
///
/// Amounts are in the stablecoin's smallest unit.
#[derive(Debug, Clone)]
pub struct OwnVenue {
    pub venue: VenueId,
    pub shares: U256,
    /// The amount that the shares redeem for; `None` if it cannot be read.
    pub worth: Option<U256>,
    /// The amount that can be withdrawn now; `None` if that is not known.
    pub withdrawable: Option<U256>,
}

impl Lending {
    /// Reads all venues of a network in which an address may have a position.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn own_venues(
        &self,
        network: &'static Network,
        contracts: &'static Contracts,
        owner: Address,
        known: &KnownVenues,
    ) -> Result<Vec<OwnVenue>, Refusal> {
        let venues = self.venues_of(network.chain, owner, known).into_iter().collect();
        self.read_own_venues(network, contracts, owner, venues).await
    }

    /// Reads the markets of a network in which an address may have a position.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn own_markets(
        &self,
        network: &'static Network,
        owner: Address,
        known: &KnownVenues,
    ) -> Result<Vec<OwnVenue>, Refusal> {
        let Some(contracts) = network.lending else { return Ok(Vec::new()) };
        let venues = self.venues_of(network.chain, owner, known).into_iter();
        let markets = venues.filter(|venue| matches!(venue, VenueId::Market(_))).collect();
        self.read_own_venues(network, contracts, owner, markets).await
    }

    async fn read_own_venues(
        &self,
        network: &'static Network,
        contracts: &'static Contracts,
        owner: Address,
        venues: Vec<VenueId>,
    ) -> Result<Vec<OwnVenue>, Refusal> {
        if venues.is_empty() {
            return Ok(Vec::new());
        }
        let chain = self.chain(network)?;
        let reader = self.reader(&*chain, network, contracts, owner);
        let positions = match reader.read(&venues, None).await {
            Ok(read) => read.positions,
            // One venue can make the read of all venues fail, so read each venue alone.
            Err(_fault) => {
                let each = venues.iter().map(|venue| async {
                    let read = reader.read(&[*venue], None).await.ok();
                    let read = read.and_then(|read| read.positions.into_iter().next());
                    read.unwrap_or((*venue, None))
                });
                futures::future::join_all(each).await
            }
        };
        let positions = positions.into_iter().map(|(venue, position)| {
            let reader = &reader;
            async move {
                let Some(position) = position else {
                    return OwnVenue { venue, shares: U256::ZERO, worth: None, withdrawable: None };
                };
                let withdrawable = if position.shares.is_zero() {
                    Some(U256::ZERO)
                } else {
                    let wanted = LoanTarget { venue, preview: Preview::All };
                    let whole = reader.read(&[venue], Some(wanted)).await.ok();
                    whole.and_then(|one| one.venue?.ok()).and_then(|one| match one.exit_gate {
                        Some(_closed) => Some(U256::ZERO),
                        None => one.withdrawable,
                    })
                };
                let (shares, worth) = (position.shares, Some(position.worth));
                OwnVenue { venue, shares, worth, withdrawable }
            }
        });
        Ok(futures::future::join_all(positions).await)
    }
}
