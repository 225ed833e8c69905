//! Finds the markets to which trusted vaults lend. Only these markets may be used directly.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;
use bursar_chain::ports::Chain;
use bursar_core::networks::{Lending as Contracts, Network, VaultKind};
use bursar_domain::Refusal;
use bursar_morpho::caps::market_cap_id;
use bursar_morpho::views::{adapter, market, vault};
use bursar_morpho::{MarketParams, VenueId, views};

use super::lane::Lending;
use super::measure::LoanNetwork;
use super::vault_read::VaultFacts;
use super::venue_read::Endorser;
use crate::lanes::batch::Batch;

/// Maximum number of markets read of one adapter.
const MARKETS_MAX: u64 = 64;

/// A market, and a trusted vault that lends to it.
#[derive(Debug, Clone)]
pub(super) struct EndorsedMarket {
    pub(super) params: MarketParams,
    pub(super) endorser: Endorser,
}

impl Lending {
    /// Finds and caches which trusted vault lends to a market, if that is not known.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn find_endorser(
        &self,
        network: &'static Network,
        venue: VenueId,
    ) -> Result<(), Refusal> {
        let known = self.hints.venue(network.chain, venue).endorser.is_some();
        match (venue, network.lending) {
            (VenueId::Market(_), Some(contracts)) if !known => {
                self.survey_markets(network, contracts).await.map(|_found| ())
            }
            (VenueId::Vault(_) | VenueId::Market(_), _) => Ok(()),
        }
    }

    /// Looks for a trusted vault other than `asked` that lends to a market. Returns whether there is one; `false` if
    /// the network cannot be read.
    pub(super) async fn has_other_endorser(
        &self,
        LoanNetwork { network, contracts }: LoanNetwork,
        venue: VenueId,
        asked: Option<Endorser>,
    ) -> bool {
        if asked.is_none() {
            return false;
        }
        let known = || self.hints.venue(network.chain, venue).endorser;
        // A concurrent request may have found it already.
        known() != asked
            || (self.survey_markets(network, contracts).await.is_ok() && known() != asked)
    }

    /// Reads to which markets the trusted vaults of a network lend, and caches one such vault for each market.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub(super) async fn survey_markets(
        &self,
        network: &'static Network,
        contracts: &'static Contracts,
    ) -> Result<(Vec<VaultFacts>, BTreeMap<B256, EndorsedMarket>), Refusal> {
        let (chain, block) = self.at_newest_block(network).await?;
        let survey = self.survey_at(&*chain, block, network, contracts).await?;
        let trusted: Vec<&VaultFacts> =
            survey.venues.iter().filter(|venue| venue.is_trusted()).collect();
        let markets = endorsed_markets(&*chain, block, contracts, &trusted).await?;
        for (id, found) in &markets {
            let venue = VenueId::Market(*id);
            self.hints.set_endorser(network.chain, venue, Some(found.endorser));
        }
        Ok((survey.venues, markets))
    }
}

/// Reads the markets of some vaults, and keeps those with a cap above zero.
async fn endorsed_markets(
    chain: &dyn Chain,
    block: u64,
    contracts: &Contracts,
    vaults: &[&VaultFacts],
) -> Result<BTreeMap<B256, EndorsedMarket>, Refusal> {
    let ids = market_ids(chain, block, vaults).await?;
    let mut batch = Batch::default();
    let distinct: BTreeSet<B256> = ids.iter().map(|(id, _endorser)| *id).collect();
    let places: Vec<_> = distinct
        .into_iter()
        .map(|id| (id, batch.add(contracts.singleton, market::market_params_call(id))))
        .collect();
    let answers = batch.run_at(chain, block).await?;
    let params: BTreeMap<B256, MarketParams> = places
        .into_iter()
        .filter_map(|(id, at)| {
            Some((id, market::decode_market_params(id, answers.bytes(at).ok()?)?))
        })
        .collect();
    let mut batch = Batch::default();
    let mut asked = Vec::new();
    for (id, endorser) in ids {
        let Some(params) = params.get(&id) else { continue };
        let call = match endorser.adapter {
            Some(adapter) => vault::absolute_cap_call(market_cap_id(adapter, params)),
            None => vault::market_config_call(id),
        };
        asked.push((id, *params, endorser, batch.add(endorser.vault, call)));
    }
    let answers = batch.run_at(chain, block).await?;
    let mut markets = BTreeMap::new();
    for (id, params, endorser, at) in asked {
        let is_capped = match endorser.adapter {
            Some(_adapter) => answers.number(at).is_ok_and(|cap| !cap.is_zero()),
            None => {
                let config =
                    answers.bytes(at).ok().and_then(|one| vault::decode_market_config(one));
                config.is_some_and(|config| config.is_enabled && !config.cap.is_zero())
            }
        };
        if is_capped {
            markets.entry(id).or_insert(EndorsedMarket { params, endorser });
        }
    }
    Ok(markets)
}

/// Returns the markets of some vaults, each with its vault and adapter.
async fn market_ids(
    chain: &dyn Chain,
    block: u64,
    vaults: &[&VaultFacts],
) -> Result<Vec<(B256, Endorser)>, Refusal> {
    let mut ids = Vec::new();
    let mut batch = Batch::default();
    let mut adapters = Vec::new();
    for venue in vaults {
        match venue.kind {
            VaultKind::MetaMorpho => {
                let endorser = Endorser { vault: venue.address, adapter: None };
                ids.extend(venue.markets.iter().map(|id| (*id, endorser)));
            }
            VaultKind::V2 => adapters.extend(venue.market_adapters.iter().map(|adapter| {
                let endorser = Endorser { vault: venue.address, adapter: Some(*adapter) };
                (*adapter, endorser, batch.add(*adapter, adapter::market_count_call()))
            })),
        }
    }
    let answers = batch.run_at(chain, block).await?;
    let mut batch = Batch::default();
    let mut asked = Vec::new();
    for (address, endorser, at) in adapters {
        let count = answers.bytes(at).ok().and_then(|one| views::decode_length(one));
        for index in 0..count.unwrap_or(0).min(MARKETS_MAX) {
            asked.push((endorser, batch.add(address, adapter::market_id_call(index))));
        }
    }
    let answers = batch.run_at(chain, block).await?;
    let found = asked.into_iter().filter_map(|(endorser, at)| {
        Some((views::decode_market_id(answers.bytes(at).ok()?)?, endorser))
    });
    ids.extend(found);
    Ok(ids)
}
