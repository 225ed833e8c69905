//! Reads many vaults at once: their facts, their curators and owners, and whether they are trusted.

use alloy_primitives::Address;
use bursar_chain::ports::Chain;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;

use super::lane::Lending;
use super::vault_list::VaultList;
use super::vault_read::{ROUNDS_MAX, Structure, VaultFacts, VaultOutcome, VaultReads};
use crate::lanes::batch::Batch;

/// The vaults of a network, all at one block.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    pub venues: Vec<VaultFacts>,
    /// The vaults that cannot be read, with the reason.
    pub unreadable: Vec<(Address, &'static str)>,
}

impl Lending {
    /// Reads the vaults that a list of a network's venues shows.
    ///
    /// These are the vaults of our table, those in which the wallet has a position, and those of trusted curators that
    /// are not refused.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn survey(&self, network: &Network) -> Result<Survey, Refusal> {
        let Some(contracts) = network.lending else { return Ok(Survey::default()) };
        let (chain, block) = self.at_newest_block(network).await?;
        self.survey_at(&*chain, block, network, contracts).await
    }

    /// Surveys the vaults at a given block.
    pub(super) async fn survey_at(
        &self,
        chain: &dyn Chain,
        block: u64,
        network: &Network,
        contracts: &Contracts,
    ) -> Result<Survey, Refusal> {
        let list = VaultList::read(self.scan(), chain, block, network, contracts).await?;
        let mut survey = survey_at(chain, block, network, contracts, &list.vaults).await?;
        survey.venues.retain(|one| list.is_listed(one.address, one.trust));
        survey.unreadable.retain(|(vault, _reason)| list.always_mentions(*vault));
        Ok(survey)
    }
}

/// Reads some vaults at a block.
pub(super) async fn survey_at(
    chain: &dyn Chain,
    block: u64,
    network: &Network,
    contracts: &Contracts,
    vaults: &[Address],
) -> Result<Survey, Refusal> {
    let mut survey = Survey::default();
    let mut left: Vec<(Address, Structure)> =
        vaults.iter().map(|vault| (*vault, Structure::default())).collect();
    for _round in 0..ROUNDS_MAX {
        let mut batch = Batch::default();
        let asked: Vec<_> = left
            .into_iter()
            .map(|(vault, parts)| {
                (vault, VaultReads::ask(&mut batch, vault, network, contracts, parts))
            })
            .collect();
        let answers = batch.run_at(chain, block).await?;
        left = Vec::new();
        for (vault, places) in asked {
            match places.read(&answers, network, contracts) {
                VaultOutcome::Read(venue) => survey.venues.push(*venue),
                VaultOutcome::OtherParts(parts) => left.push((vault, parts)),
                VaultOutcome::Unreadable(reason) => survey.unreadable.push((vault, reason)),
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
