//! The reads of a measurement: all of one block, in one call.

use alloy_primitives::{Address, Bytes, U256};
use bursar_chain::multicall::{Read, ReadFault, call_many};
use bursar_chain::ports::{BlockTag, Chain};
use bursar_core::codes::Code;
use bursar_core::networks::Exchange;
use bursar_domain::Refusal;
use bursar_uniswap::read::{self, Permit2Allowance};

use super::eth_price::{FeedPrice, feed_usd};

/// Reads of one request.
#[derive(Default)]
pub(super) struct Batch(Vec<Read>);

impl Batch {
    /// Adds a call and returns its place.
    pub(super) fn add(&mut self, to: Address, data: Bytes) -> usize {
        self.push(Read::Call { to, data })
    }

    pub(super) fn push(&mut self, read: Read) -> usize {
        self.0.push(read);
        self.0.len().saturating_sub(1)
    }

    /// Adds the network's price feed, if it has one.
    pub(super) fn add_feed(&mut self, exchange: &Exchange) -> Option<usize> {
        exchange.native_feed.map(|feed| self.add(feed.address, read::feed_call()))
    }

    /// Makes the reads at the newest block.
    pub(super) async fn run(&self, chain: &dyn Chain) -> Result<Answers, Refusal> {
        if self.0.is_empty() {
            return Ok(Answers(Vec::new()));
        }
        let answers = call_many(chain, &self.0, BlockTag::Latest).await;
        answers.map(Answers).map_err(|_fault| unavailable())
    }
}

pub(super) fn unavailable() -> Refusal {
    Refusal::new(Code::ChainUnavailable)
}

/// The answers, at the places of their reads.
pub(super) struct Answers(pub(super) Vec<Result<Bytes, ReadFault>>);

impl Answers {
    pub(super) fn get(&self, at: usize) -> Option<&Result<Bytes, ReadFault>> {
        self.0.get(at)
    }

    pub(super) fn bytes(&self, at: usize) -> Result<&Bytes, Refusal> {
        self.get(at).and_then(|answer| answer.as_ref().ok()).ok_or_else(unavailable)
    }

    pub(super) fn number(&self, at: usize) -> Result<U256, Refusal> {
        let word = self.bytes(at)?;
        if word.len() == 32 { Ok(U256::from_be_slice(word)) } else { Err(unavailable()) }
    }

    /// Returns a time in Unix seconds.
    pub(super) fn time(&self, at: usize) -> Result<u64, Refusal> {
        u64::try_from(self.number(at)?).map_err(|_absurd| unavailable())
    }

    /// Returns the answer of [`Batch::add_feed`] at a block of this time, in Unix seconds.
    pub(super) fn feed_of(&self, exchange: &Exchange, at: Option<usize>, now: u64) -> FeedPrice {
        match exchange.native_feed.zip(at) {
            Some((feed, at)) => self.feed(at, feed.decimals, now, feed.stale_seconds),
            None => FeedPrice::Missing,
        }
    }

    pub(super) fn permit2(&self, at: usize) -> Result<Permit2Allowance, Refusal> {
        read::decode_permit2_allowance(self.bytes(at)?).map_err(|_odd| unavailable())
    }

    /// Returns the price that a feed reports at a block of this time, in Unix seconds.
    pub(super) fn feed(&self, at: usize, decimals: u8, now: u64, stale_seconds: u64) -> FeedPrice {
        match self.get(at) {
            // An address without code is no feed.
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
