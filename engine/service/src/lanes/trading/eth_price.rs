//! The price of ETH for checking limits: the higher of two prices, one from an API and one from the network's feed.
//! If a price is missing, stale or implausible, or if the two differ too much, the price is unknown, and a trade
//! waits for the operator.

use std::sync::Arc;

use alloy_primitives::U256;
use bursar_chain::ports::{Clock, Prices};
use bursar_core::money::Usd;
use tokio::sync::Mutex;

use crate::ports::PriceSource;

/// How long a price of the API is used, in milliseconds (wallet specification, Limits).
const PRICE_MS: u64 = 60_000;

/// Pause before an API that gave no price is queried again, in milliseconds. A trade is measured several times, and
/// must not wait for the same silent API each time.
const FAILURE_MS: u64 = 30_000;

/// Longest wait for the API, in milliseconds.
const WAIT_MS: u64 = 3_000;

/// Prices outside this range, in whole dollars, are implausible.
const PLAUSIBLE_PRICES: std::ops::RangeInclusive<Usd> = Usd::dollars(1)..=Usd::dollars(1_000_000);

const WEI_PER_COIN: u128 = 1_000_000_000_000_000_000;

/// The price of ETH, cached.
#[derive(Debug)]
pub(super) struct EthPrice {
    api: PriceSource,
    clock: Arc<dyn Clock>,
    // A lock instead of an owning task. It is held during the API request, for at most WAIT_MS, so that concurrent
    // measurements share one answer.
    answers: Mutex<CachedPrices>,
}

/// The latest answers of the API. Times are by [`Moment::age_clock_ms`](bursar_core::time::Moment::age_clock_ms).
#[derive(Debug, Default)]
struct CachedPrices {
    price: Option<Reading>,
    /// When the API last gave no price.
    failed_at_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    price: Usd,
    at_ms: u64,
    /// Whether the price differs from the previous one by at most 20 %, or is the first price.
    is_steady: bool,
}

/// The API's price for one measurement; `None` if it is unknown.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApiPrice(Option<Usd>);

/// The price that the network's own feed reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedPrice {
    /// The network has no feed.
    Missing,
    /// The feed did not answer, or its answer is stale or invalid.
    Unknown,
    Price(Usd),
}

impl ApiPrice {
    /// Returns the price of one ETH; `None` if it is unknown.
    pub(super) fn with_feed(self, feed: FeedPrice) -> Option<Usd> {
        let api = self.0?;
        match feed {
            FeedPrice::Missing => Some(api),
            FeedPrice::Unknown => None,
            FeedPrice::Price(feed) => (!differ_by_more(api, feed, 3)).then(|| api.max(feed)),
        }
    }
}

impl EthPrice {
    pub(super) fn new(api: PriceSource, clock: Arc<dyn Clock>) -> Self {
        Self { api, clock, answers: Mutex::default() }
    }

    /// Returns the API's price, and queries the API if the cached price is too old.
    ///
    /// A measurement calls this once, while it reads the market.
    pub(super) async fn api_price(&self) -> ApiPrice {
        let until_ms = self.clock.mono_ms().saturating_add(WAIT_MS);
        // cancel-safe: a dropped call to the API has changed nothing.
        let price = tokio::select! {
            biased;
            price = self.latest(until_ms) => price,
            () = self.clock.sleep_until(until_ms) => None,
        };
        ApiPrice(price)
    }

    async fn latest(&self, until_ms: u64) -> Option<Usd> {
        let mut answers = self.answers.lock().await;
        let now_ms = self.clock.now().age_clock_ms();
        let is_recent = |at_ms: u64, lasts_ms| now_ms.saturating_sub(at_ms) < lasts_ms;
        if let Some(known) = answers.price.filter(|known| is_recent(known.at_ms, PRICE_MS)) {
            return known.usable();
        }
        if answers.failed_at_ms.is_some_and(|at_ms| is_recent(at_ms, FAILURE_MS)) {
            return None;
        }
        let api = self.api.get()?;
        let Some(price) = self.query(&*api, until_ms).await else {
            answers.failed_at_ms = Some(self.clock.now().age_clock_ms());
            return None;
        };
        let steady = answers.price.is_none_or(|older| !differ_by_more(price, older.price, 20));
        let reading = Reading { price, at_ms: now_ms, is_steady: steady };
        *answers = CachedPrices { price: Some(reading), failed_at_ms: None };
        reading.usable()
    }

    /// Queries the API, and gives up at `until_ms` on our monotonic clock.
    async fn query(&self, api: &dyn Prices, until_ms: u64) -> Option<Usd> {
        // cancel-safe: a call to the API changes nothing.
        tokio::select! {
            biased;
            price = api.eth() => price.ok(),
            () = self.clock.sleep_until(until_ms) => None,
        }
    }
}

impl Reading {
    fn usable(self) -> Option<Usd> {
        (self.is_steady && PLAUSIBLE_PRICES.contains(&self.price)).then_some(self.price)
    }
}

/// Returns whether two prices differ by more than `percent` of the higher one.
fn differ_by_more(one: Usd, other: Usd, percent: u128) -> bool {
    let apart = u128::from(one.0.abs_diff(other.0));
    apart.saturating_mul(100) > u128::from(one.0.max(other.0)).saturating_mul(percent)
}

/// Returns the value of an amount of ETH, rounded up to a millionth of a dollar; `None` if it overflows.
pub(super) fn value_of(wei: U256, price: Usd) -> Option<Usd> {
    let product = wei.checked_mul(U256::from(price.0))?;
    let micros = product.checked_add(U256::from(WEI_PER_COIN).checked_sub(U256::ONE)?)?
        / U256::from(WEI_PER_COIN);
    u64::try_from(micros).ok().map(Usd)
}

/// Returns how much ETH is worth `value`, in wei; `None` if the price is zero or the product overflows.
pub(super) fn wei_of(value: Usd, price: Usd) -> Option<U256> {
    U256::from(value.0).checked_mul(U256::from(WEI_PER_COIN))?.checked_div(U256::from(price.0))
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
    use bursar_chain::ports::{BoxFuture, PriceFault};
    use bursar_core::time::Utc;
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    /// An API whose price rises by a dollar with each question. While it hangs, it never answers.
    #[derive(Debug, Default)]
    struct RisingPrices {
        query_count: AtomicU32,
        hangs: AtomicBool,
    }

    impl Prices for RisingPrices {
        fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>> {
            let asked = self.query_count.fetch_add(1, Ordering::SeqCst);
            let hangs = self.hangs.load(Ordering::SeqCst);
            Box::pin(async move {
                if hangs { pending().await } else { Ok(Usd::dollars(3_000 + asked)) }
            })
        }
    }

    struct World {
        clock: Arc<ManualClock>,
        api: Arc<RisingPrices>,
        price: EthPrice,
    }

    impl World {
        fn new(clock: ManualClock) -> Self {
            let (clock, api) = (Arc::new(clock), Arc::<RisingPrices>::default());
            let source = PriceSource::from(Some(Arc::clone(&api) as Arc<dyn Prices>));
            let price = EthPrice::new(source, Arc::clone(&clock) as _);
            Self { clock, api, price }
        }

        async fn read(&self) -> Option<Usd> {
            self.price.api_price().await.with_feed(FeedPrice::Missing)
        }

        /// Reads the price while the clock advances by the longest wait for the API.
        async fn read_in_time(&self) -> Option<Usd> {
            let pass = async {
                // Let the read register its timer first.
                tokio::task::yield_now().await;
                self.clock.advance(WAIT_MS);
            };
            let ((), price) = futures::future::join(pass, self.read()).await;
            price
        }

        fn query_count(&self) -> u32 {
            self.api.query_count.load(Ordering::SeqCst)
        }
    }

    fn clock() -> ManualClock {
        ManualClock::new(Utc::from_seconds(1_000))
    }

    /// Limits are checked with the higher price.
    #[test]
    fn the_higher_of_two_prices_counts_if_they_are_close() {
        let with = |api: u32, feed| ApiPrice(Some(Usd::dollars(api))).with_feed(feed);
        let feed = |dollars: u32| FeedPrice::Price(Usd::dollars(dollars));
        assert_eq!(with(2_950, feed(3_000)), Some(Usd::dollars(3_000)));
        assert_eq!(with(3_000, feed(2_950)), Some(Usd::dollars(3_000)));
        // A difference of exactly three percent of the higher price is still accepted.
        assert_eq!(with(3_000, feed(2_910)), Some(Usd::dollars(3_000)));
        assert_eq!(with(2_910, feed(3_000)), Some(Usd::dollars(3_000)));
        assert_eq!((with(3_000, feed(2_909)), with(2_909, feed(3_000))), (None, None));
        assert_eq!(with(3_000, FeedPrice::Missing), Some(Usd::dollars(3_000)));
        assert_eq!(with(3_000, FeedPrice::Unknown), None);
        assert_eq!(ApiPrice(None).with_feed(feed(3_000)), None);
    }

    #[tokio::test]
    async fn a_price_is_used_for_a_minute_and_not_after_a_sleep() {
        let world = World::new(clock());
        assert_eq!(world.read().await, Some(Usd::dollars(3_000)));
        world.clock.advance(59_999);
        assert_eq!(world.read().await, Some(Usd::dollars(3_000)));
        world.clock.advance(1);
        assert_eq!(world.read().await, Some(Usd::dollars(3_001)));
        world.clock.suspend(60_000);
        assert_eq!(world.read().await, Some(Usd::dollars(3_002)), "the machine slept for a minute");
    }

    #[tokio::test]
    async fn a_price_ages_without_a_boot_clock() {
        let world = World::new(clock().without_boot_clock());
        assert_eq!(world.read().await, Some(Usd::dollars(3_000)));
        world.clock.advance(60_000);
        assert_eq!(world.read().await, Some(Usd::dollars(3_001)));
    }

    #[tokio::test]
    async fn an_api_that_hangs_is_asked_once_in_half_a_minute() {
        for clock in [clock(), clock().without_boot_clock()] {
            let world = World::new(clock);
            world.api.hangs.store(true, Ordering::SeqCst);
            assert_eq!(world.read_in_time().await, None);
            // These reads return without waiting for the API: the clock stands still, so a wait would never end.
            world.clock.advance(FAILURE_MS - 1);
            assert_eq!(
                (world.read().await, world.read().await, world.query_count()),
                (None, None, 1)
            );
            world.clock.advance(1);
            assert_eq!((world.read_in_time().await, world.query_count()), (None, 2));
            world.api.hangs.store(false, Ordering::SeqCst);
            world.clock.advance(FAILURE_MS);
            assert_eq!(world.read().await, Some(Usd::dollars(3_002)));
        }
    }

    #[tokio::test]
    async fn concurrent_measurements_wait_together_for_one_answer() {
        let world = World::new(clock());
        world.api.hangs.store(true, Ordering::SeqCst);
        let (first, others) =
            (world.read_in_time(), futures::future::join(world.read(), world.read()));
        assert_eq!(futures::future::join(first, others).await, (None, (None, None)));
        assert_eq!(world.query_count(), 1);
        world.api.hangs.store(false, Ordering::SeqCst);
        world.clock.advance(FAILURE_MS);
        let both = futures::future::join(world.read(), world.read()).await;
        assert_eq!(both, (Some(Usd::dollars(3_001)), Some(Usd::dollars(3_001))));
    }

    #[tokio::test]
    async fn a_failure_is_not_compared_with_and_an_old_price_is_not_used_in_its_place() {
        let world = World::new(clock());
        assert_eq!(world.read().await, Some(Usd::dollars(3_000)));
        world.api.hangs.store(true, Ordering::SeqCst);
        world.clock.advance(PRICE_MS);
        assert_eq!(world.read_in_time().await, None);
        world.api.hangs.store(false, Ordering::SeqCst);
        world.clock.advance(FAILURE_MS);
        assert_eq!(world.read().await, Some(Usd::dollars(3_002)));
    }

    #[tokio::test]
    async fn a_missing_api_is_no_failure_of_its_successor() {
        let world = World::new(clock());
        let (source, clock) = (PriceSource::default(), Arc::clone(&world.clock));
        let price = EthPrice::new(source.clone(), clock as _);
        assert!(price.api_price().await.with_feed(FeedPrice::Missing).is_none());
        source.set(Some(Arc::clone(&world.api) as _));
        assert!(price.api_price().await.with_feed(FeedPrice::Missing).is_some());
    }
}
