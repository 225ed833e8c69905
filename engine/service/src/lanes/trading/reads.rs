//! The reads that only the trading lane makes: price feeds and allowances within Permit2.

use bursar_core::networks::Exchange;
use bursar_domain::Refusal;
use bursar_uniswap::read::{self, Permit2Allowance};

use super::eth_price::{FeedPrice, feed_usd};
pub(super) use crate::lanes::batch::{Answers, Batch, chain_unavailable};

impl Batch {
    /// Adds the read of the network's price feed, if the network has one.
    pub(super) fn add_feed(&mut self, exchange: &Exchange) -> Option<usize> {
        exchange.native_feed.map(|feed| self.add(feed.address, read::feed_call()))
    }
}

impl Answers {
    /// Returns the price that [`Batch::add_feed`] read. `now` is the time of its block, in Unix seconds.
    pub(super) fn feed_of(&self, exchange: &Exchange, at: Option<usize>, now: u64) -> FeedPrice {
        match exchange.native_feed.zip(at) {
            Some((feed, at)) => self.feed(at, feed.decimals, now, feed.stale_seconds),
            None => FeedPrice::Missing,
        }
    }

    pub(super) fn permit2(&self, at: usize) -> Result<Permit2Allowance, Refusal> {
        read::decode_permit2_allowance(self.bytes(at)?).map_err(|_odd| chain_unavailable())
    }

    /// Returns the price that a feed reports. `now` is the time of the block, in Unix seconds.
    pub(super) fn feed(&self, at: usize, decimals: u8, now: u64, stale_seconds: u64) -> FeedPrice {
        match self.get(at) {
            // An address without code is not a feed.
            Some(Ok(answer)) if answer.is_empty() => FeedPrice::Missing,
            Some(Ok(answer)) => match read::decode_feed(answer) {
                Ok(feed) if now.saturating_sub(feed.updated_at) < stale_seconds => {
                    let usd = feed_usd(feed.price, decimals);
                    usd.map_or(FeedPrice::Unknown, FeedPrice::Price)
                }
                Ok(_stale) => FeedPrice::Unknown,
                Err(_invalid) => FeedPrice::Unknown,
            },
            Some(Err(_)) | None => FeedPrice::Unknown,
        }
    }
}
