//! Reads the allowances that an address has given to venues.

use std::collections::BTreeSet;

use alloy_primitives::Address;
use bursar_chain::token;
use bursar_core::networks::Network;
use bursar_domain::{Refusal, State};
use bursar_morpho::VenueId;

use super::known::KnownVenues;
use super::lane::Lending;
use crate::lanes::allowances::{Allowance, Allowances};
use crate::lanes::batch::Batch;

/// Number of allowances in one batch of reads.
const ALLOWANCES_PER_READ: usize = 50;

impl Lending {
    /// Reads the stablecoin allowances for Morpho Blue and for vaults.
    ///
    /// The vaults are those in which this wallet has lent or could have lent.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn allowances(
        &self,
        state: &State,
        network: &Network,
        owner: Address,
    ) -> Result<Allowances, Refusal> {
        let mut all = Allowances::default();
        let Some(contracts) = network.lending else { return Ok(all) };
        let chain = self.chain(network)?;
        let mut venues =
            self.venues_of(network.chain, owner, &KnownVenues::of_wallet(state, owner));
        let noted = state.loans.venues.keys().filter(|(noted, _venue)| *noted == network.chain);
        venues.extend(noted.map(|(_chain, venue)| *venue));
        let vaults: BTreeSet<Address> = venues
            .into_iter()
            .filter_map(|venue| match venue {
                VenueId::Vault(vault) => Some(vault),
                VenueId::Market(_) => None,
            })
            .collect();
        let mut spenders = vec![(contracts.singleton, "Morpho Blue")];
        spenders.extend(vaults.into_iter().map(|vault| (vault, "a vault of Morpho")));
        let token = network.stablecoin.address;
        for spenders in spenders.chunks(ALLOWANCES_PER_READ) {
            let mut batch = Batch::default();
            let asked = |&(spender, name): &(Address, &'static str)| {
                (spender, name, batch.add(token, token::allowance_call(owner, spender)))
            };
            let places: Vec<_> = spenders.iter().map(asked).collect();
            let answers = batch.run(&*chain).await?;
            for (spender, spender_name, at) in places {
                match answers.number(at) {
                    Ok(amount) => {
                        all.add(Allowance { token, spender, spender_name, amount, until: None });
                    }
                    Err(_invalid) if all.unreadable.last() == Some(&token) => {}
                    Err(_invalid) => all.unreadable.push(token),
                }
            }
        }
        Ok(all)
    }
}
