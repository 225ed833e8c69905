//! What gas costs on a network, as far as it was told a moment ago. Known ahead of those who ask: while there are
//! requests it is looked up beside them, not by them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bursar_chain::ports::ChainFault;
use bursar_submit::fees;

use crate::settle::dispatch::Settler;

/// From how old on it is looked up again.
const REFRESH_MS: u64 = 2_000;
/// Older than this it is not used.
const STALE_MS: u64 = 30_000;

/// What is known of a network's gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Price {
    /// Within what is paid.
    pub(super) affordable: bool,
    /// The gas of all transactions of a block together.
    pub(super) block_gas: Option<u64>,
    /// The newest block then.
    pub(super) block: u64,
    at_ms: u64,
}

/// The last price, and whether somebody looks it up.
#[derive(Debug, Default)]
pub(super) struct Prices {
    last: Mutex<Option<Price>>,
    looking: AtomicBool,
}

impl Prices {
    pub(super) fn last(&self) -> Option<Price> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Settler {
    /// What gas costs, now or a moment ago.
    pub(super) async fn price(self: &Arc<Self>) -> Result<Price, ChainFault> {
        let now = self.served.clock.mono_ms();
        let age = |price: &Price| now.saturating_sub(price.at_ms);
        match self.prices.last().filter(|price| age(price) < STALE_MS) {
            Some(price) => {
                if age(&price) >= REFRESH_MS && !self.prices.looking.swap(true, Ordering::AcqRel) {
                    let settler = Arc::clone(self);
                    self.tasks.spawn(async move {
                        if let Err(fault) = settler.look_up_price().await {
                            tracing::debug!(%fault, "the price of gas is not known");
                        }
                        settler.prices.looking.store(false, Ordering::Release);
                    });
                }
                Ok(price)
            }
            None => self.look_up_price().await,
        }
    }

    async fn look_up_price(&self) -> Result<Price, ChainFault> {
        let gas = self.served.config.gas();
        let facts = self.served.chain.fee_facts().await?;
        let unusable = |message: String| ChainFault::Rejected { code: 0, message };
        let quote = fees::quote(&gas, &facts).map_err(|fault| unusable(fault.to_string()))?;
        // From there on it is looked for who was quicker: from nowhere on would be all of the chain.
        let no_number = || unusable("the node did not say which block is the newest".to_owned());
        let price = Price {
            affordable: fees::within(&quote, gas.ceiling).is_some(),
            block_gas: facts.block_gas,
            block: facts.block.ok_or_else(no_number)?,
            at_ms: self.served.clock.mono_ms(),
        };
        *self.prices.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(price);
        Ok(price)
    }
}
