//! Lists the curated venues of a network.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::B256;
use bursar_chain::ports::BlockTag;
use bursar_chain::token;
use bursar_core::networks::{Lending as Contracts, Network};
use bursar_domain::Refusal;

use super::lane::Lending;
use super::listing::{ListedMarket, Listing};
use super::markets::EndorsedMarket;
use super::vault_read::VaultFacts;
use super::venue_read::lltv_text;

/// Maximum age of a list that is returned from the cache, in milliseconds. A supply always reads its venue again.
const FRESH_MS: u64 = 60_000;

impl Lending {
    /// Returns the list of a network, at most a minute old.
    ///
    /// # Errors
    /// `CHAIN_UNAVAILABLE`
    pub async fn listing(
        &self,
        network: &'static Network,
        contracts: &'static Contracts,
    ) -> Result<Arc<Listing>, Refusal> {
        let now_ms = self.ports.clock.now().age_clock_ms();
        let known = self.cached_listing(network.chain);
        if let Some(known) = known.filter(|known| now_ms.saturating_sub(known.at_ms) <= FRESH_MS) {
            return Ok(known);
        }
        let (vaults, markets) = self.survey_markets(network, contracts).await?;
        let markets = self.describe(network, &vaults, markets).await?;
        let listing = Arc::new(Listing { at_ms: now_ms, vaults, markets });
        self.cache_listing(network.chain, Arc::clone(&listing));
        Ok(listing)
    }

    async fn describe(
        &self,
        network: &'static Network,
        vaults: &[VaultFacts],
        markets: BTreeMap<B256, EndorsedMarket>,
    ) -> Result<Vec<ListedMarket>, Refusal> {
        let chain = self.chain(network)?;
        let described = markets.into_iter().map(|(id, market)| {
            let chain = Arc::clone(&chain);
            async move {
                let EndorsedMarket { params, endorser } = market;
                let call = token::symbol_call();
                let symbol = chain.call(params.collateral_token, call, BlockTag::Latest).await;
                let symbol = symbol.map(|one| token::decode_text(&one)).unwrap_or_default();
                let lltv = lltv_text(params.lltv_e18);
                let vault = vaults.iter().find(|vault| vault.address == endorser.vault);
                ListedMarket {
                    id,
                    params,
                    name: format!("{symbol} / {lltv}"),
                    collateral_symbol: symbol,
                    lltv_percent: lltv.trim_end_matches('%').to_owned(),
                    endorsed_by: vault.map_or(String::new(), |vault| vault.name.clone()),
                }
            }
        });
        Ok(futures::future::join_all(described).await)
    }
}
