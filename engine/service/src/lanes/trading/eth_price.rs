//! The price of ETH that limits are checked with: the higher of a price API and the network's feed. If they are
//! missing, stale, implausible or too far apart, the price is unknown, and a trade waits for the operator.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::U256;
use bursar_chain::ports::Clock;
use bursar_core::money::Usd;

use crate::ports::PriceSource;

/// How long a price of the API is used, in milliseconds (wallet specification, Limits).
const PRICE_MS: u64 = 60_000;

/// Longest wait for the API.
const WAIT: Duration = Duration::from_secs(3);

/// Prices outside this range, in whole dollars, are implausible.
const PLAUSIBLE: std::ops::RangeInclusive<Usd> = Usd::dollars(1)..=Usd::dollars(1_000_000);

const WEI: u128 = 1_000_000_000_000_000_000;

/// The price of ETH, cached.
#[derive(Debug)]
pub(super) struct EthPrice {
    api: PriceSource,
    clock: Arc<dyn Clock>,
    // A lock instead of an owning task: it is never held across an await.
    last: Mutex<Option<Reading>>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    price: Usd,
    at_ms: u64,
    /// The price is plausible next to the one before.
    steady: bool,
}

/// What the network's own feed reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedPrice {
    /// The network has no feed.
    Missing,
    /// The feed did not answer, or its answer is stale or invalid.
    Unknown,
    Price(Usd),
}

impl EthPrice {
    pub(super) fn new(api: PriceSource, clock: Arc<dyn Clock>) -> Self {
        Self { api, clock, last: Mutex::default() }
    }

    /// Returns the price of one ETH; `None` if it is unknown.
    pub(super) async fn read(&self, feed: FeedPrice) -> Option<Usd> {
        let api = self.api_price().await?;
        match feed {
            FeedPrice::Missing => Some(api),
            FeedPrice::Unknown => None,
            FeedPrice::Price(feed) => (!differ(api, feed, 3)).then(|| api.max(feed)),
        }
    }

    /// Asks the API if its last answer is too old, so that [`EthPrice::read`] need not wait for it.
    pub(super) async fn refresh(&self) {
        self.api_price().await;
    }

    async fn api_price(&self) -> Option<Usd> {
        // The time since boot counts a sleep of the machine; monotonic time does not.
        let now_ms = self.clock.now().boottime_ms;
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = match last {
            Some(last) if now_ms.saturating_sub(last.at_ms) < PRICE_MS => last,
            older => {
                let asked = tokio::time::timeout(WAIT, self.api.get()?.eth()).await;
                let price = asked.ok()?.ok()?;
                let steady = older.is_none_or(|older| !differ(price, older.price, 20));
                let reading = Reading { price, at_ms: now_ms, steady };
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
                reading
            }
        };
        (reading.steady && PLAUSIBLE.contains(&reading.price)).then_some(reading.price)
    }
}

/// Returns whether two prices are more than `percent` of the higher one apart.
fn differ(one: Usd, other: Usd, percent: u128) -> bool {
    let apart = u128::from(one.0.abs_diff(other.0));
    apart.saturating_mul(100) > u128::from(one.0.max(other.0)).saturating_mul(percent)
}

/// Returns the value of an amount of ETH, rounded up to a millionth of a dollar; `None` if it overflows.
pub(super) fn value_of(wei: U256, price: Usd) -> Option<Usd> {
    let product = wei.checked_mul(U256::from(price.0))?;
    let micros = product.checked_add(U256::from(WEI).checked_sub(U256::ONE)?)? / U256::from(WEI);
    u64::try_from(micros).ok().map(Usd)
}

/// Returns how much ETH is worth `value`, in wei; `None` if the price is zero or it overflows.
pub(super) fn wei_of(value: Usd, price: Usd) -> Option<U256> {
    U256::from(value.0).checked_mul(U256::from(WEI))?.checked_div(U256::from(price.0))
}

/// Converts the answer of a feed with `decimals` decimals to dollars, rounded up.
pub(super) fn feed_usd(price: U256, decimals: u8) -> Option<Usd> {
    let scale = U256::from(10).checked_pow(U256::from(decimals))?;
    let product = price.checked_mul(U256::from(1_000_000u64))?;
    let micros = product.checked_add(scale.checked_sub(U256::ONE)?)?.checked_div(scale)?;
    u64::try_from(micros).ok().map(Usd)
}

#[cfg(test)]
mod tests {
    use bursar_chain::clock::manual::ManualClock;
    use bursar_chain::ports::{BoxFuture, PriceFault, Prices};
    use bursar_core::time::Utc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// An API whose price rises by a dollar with each question.
    #[derive(Debug, Default)]
    struct Rising(AtomicU32);

    impl Prices for Rising {
        fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>> {
            let asked = self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Ok(Usd::dollars(3_000 + asked)) })
        }
    }

    #[tokio::test]
    async fn a_price_is_used_for_a_minute_and_not_after_a_sleep() {
        let clock = Arc::new(ManualClock::new(Utc::from_seconds(1_000)));
        let api: Arc<dyn Prices> = Arc::new(Rising::default());
        let price = EthPrice::new(PriceSource::from(Some(api)), Arc::clone(&clock) as _);
        let read = async || price.read(FeedPrice::Missing).await;
        assert_eq!(read().await, Some(Usd::dollars(3_000)));
        clock.advance(59_999);
        assert_eq!(read().await, Some(Usd::dollars(3_000)));
        clock.advance(1);
        assert_eq!(read().await, Some(Usd::dollars(3_001)));
        clock.suspend(60_000);
        assert_eq!(read().await, Some(Usd::dollars(3_002)), "the machine slept for a minute");
    }
}
