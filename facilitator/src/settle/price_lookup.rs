//! Looks up the price of gas and the balances of the signers. While there are requests, a background task refreshes
//! both.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy_primitives::Address;
use bursar_chain::data_fee;
use bursar_chain::ports::{BlockTag, ChainFault};
use bursar_submit::fees;

use crate::book::reservation::GasReservation;
use crate::settle::price::{Price, SignerNeed};
use crate::settle::settler::Settler;
use crate::transaction::KILOBYTE_BYTES;

/// Age in milliseconds at which a price is refreshed.
const PRICE_REFRESH_AGE_MS: u64 = 2_000;
/// Age in milliseconds at which a price is no longer used.
const PRICE_AGE_MS_MAX: u64 = 10_000;
/// How long the data fee is cached, in milliseconds. The cached bound is high enough for the fee to double in that
/// time.
const DATA_FEE_CACHE_MS: u64 = 60_000;

impl Settler {
    /// The price of gas and the balances of the signers, at most ten seconds old.
    ///
    /// # Errors
    /// No node answers, or an answer is not usable.
    pub async fn price(self: &Arc<Self>) -> Result<Arc<Price>, ChainFault> {
        let now = self.network.clock.mono_ms();
        let age = |price: &Price| now.saturating_sub(price.looked_up_ms);
        let Some(price) = self.prices.last().filter(|price| age(price) < PRICE_AGE_MS_MAX) else {
            return self.look_up_price().await;
        };
        if age(&price) < PRICE_REFRESH_AGE_MS {
            return Ok(price);
        }
        // The first request after a top-up must see the new balance, not a cached one that is too low.
        if !price.can_pay(&SignerNeed::MIN, GasReservation::default()) {
            return self.look_up_price().await;
        }
        if !self.prices.refreshing.swap(true, Ordering::AcqRel) {
            let settler = Arc::clone(self);
            self.tasks.spawn(async move {
                if let Err(fault) = settler.look_up_price().await {
                    tracing::debug!(%fault, "could not read the gas price");
                }
                settler.prices.refreshing.store(false, Ordering::Release);
            });
        }
        Ok(price)
    }

    /// Looks up everything in [`Price`].
    ///
    /// # Errors
    /// No node answers, or an answer is not usable.
    pub async fn look_up_price(&self) -> Result<Arc<Price>, ChainFault> {
        let requested_ms = self.network.clock.mono_ms();
        let (mut lookup, waited) = match self.prices.lookup.try_lock() {
            Ok(lookup) => (lookup, false),
            Err(_taken) => (self.prices.lookup.lock().await, true),
        };
        if let Some(price) = self.prices.last().filter(|price| price.looked_up_ms >= requested_ms) {
            return Ok(price);
        }
        // A lookup that began after this request has failed. This request then fails, too, and starts no further
        // lookup.
        let failed = lookup.as_ref().filter(|(started, _fault)| waited && *started >= requested_ms);
        if let Some((_started, fault)) = failed {
            return Err(fault.clone());
        }
        let started_ms = self.network.clock.mono_ms();
        let result = self.look_up_price_at(started_ms).await;
        *lookup = result.as_ref().err().map(|fault| (started_ms, fault.clone()));
        result
    }

    async fn look_up_price_at(&self, at_ms: u64) -> Result<Arc<Price>, ChainFault> {
        self.prices.begin_lookup();
        let (gas, chain) = (self.network.config.gas(), &self.network.chain);
        let balance = async |signer: Address| {
            Ok::<_, ChainFault>((signer, chain.balance(signer, BlockTag::Latest).await?))
        };
        let balances = futures::future::try_join_all(self.network.all_signers().map(balance));
        let known = self.prices.last();
        let known = known.map(|last| (last.data_fee, last.data_gas, last.data_looked_up_ms));
        let known = known.filter(|(_fee, _gas, at)| at_ms.saturating_sub(*at) < DATA_FEE_CACHE_MS);
        let data = async {
            if let Some(known) = known {
                return Ok(known);
            }
            let fee = data_fee::upper_bound(&**chain, &gas, KILOBYTE_BYTES).await?;
            Ok((fee, self.data_gas_per_kilobyte().await?, at_ms))
        };
        let all = futures::future::try_join3(chain.fee_facts(), balances, data);
        let (facts, balances, (data_fee, data_gas, data_at_ms)) = all.await?;
        let unusable = |message: String| ChainFault::Rejected { code: 0, message };
        let quote = fees::quote(&gas, &facts).map_err(|fault| unusable(fault.to_string()))?;
        // The search for a settlement by another sender starts near this block. Without its number, the search would
        // scan the whole chain.
        let no_block = || unusable("the node did not return the newest block number".to_owned());
        let within = fees::offer_within(&quote, gas.ceiling);
        let price = Price {
            is_within_gas_price_max: within.is_some(),
            next_block_price: quote.needed,
            offered_max: within.map_or(gas.ceiling, |fees| fees.max_price()),
            data_fee,
            data_gas,
            block_gas: facts.block_gas,
            block: facts.block.ok_or_else(no_block)?,
            balances: balances.into_iter().collect(),
            retired_signers: self.network.retired_signers.iter().copied().collect(),
            looked_up_ms: at_ms,
            data_looked_up_ms: data_at_ms,
        };
        Ok(self.prices.store(price))
    }
}
