//! Reads many vaults at once: what they are, whom they name, and whether they are trusted.

use alloy_primitives::Address;
use bursar_chain::ports::Chain;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;

use super::lane::Lending;
use super::vault_read::{Found, ROUNDS_MAX, Structure, VaultPlaces, Venue};
use crate::lanes::batch::Batch;

/// The vaults of a network, all at one block.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub venues: Vec<Venue>,
    /// Vaults without a valid answer, and what is wrong.
    pub unreadable: Vec<(Address, &'static str)>,
}

impl Lending {
    /// Reads all vaults of a network's table.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn survey(&self, network: &Network) -> Result<Survey, Refusal> {
        let Some(contracts) = network.lending else { return Ok(Survey::default()) };
        let (chain, block) = self.at_newest_block(network).await?;
        survey_at(&*chain, block, network, contracts).await
    }
}

/// Reads all vaults of the table at a block.
pub(super) async fn survey_at(
    chain: &dyn Chain,
    block: u64,
    network: &Network,
    contracts: &Contracts,
) -> Result<Survey, Refusal> {
    let mut survey = Survey::default();
    let vaults = contracts.pinned_vaults.iter();
    let mut left: Vec<(Address, Structure)> =
        vaults.map(|vault| (*vault, Structure::default())).collect();
    for _round in 0..ROUNDS_MAX {
        let mut batch = Batch::default();
        let asked: Vec<_> = left
            .into_iter()
            .map(|(vault, parts)| {
                (vault, VaultPlaces::ask(&mut batch, vault, network, contracts, parts))
            })
            .collect();
        let answers = batch.run_at(chain, block).await?;
        left = Vec::new();
        for (vault, places) in asked {
            match places.read(&answers, network, contracts) {
                Found::Whole(venue) => survey.venues.push(*venue),
                Found::Other(parts) => left.push((vault, parts)),
                Found::Unreadable(reason) => survey.unreadable.push((vault, reason)),
            }
        }
        if left.is_empty() {
            break;
        }
    }
    let odd = "its parts change within one block";
    survey.unreadable.extend(left.into_iter().map(|(vault, _parts)| (vault, odd)));
    Ok(survey)
}
