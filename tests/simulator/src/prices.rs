//! The price API of the world.

use std::sync::{Arc, Mutex};

use bursar_auditor::observations::{Observation, PriceRead};
use bursar_chain::clock::manual::ManualClock;
use bursar_chain::ports::{BoxFuture, Clock, EndpointLabel, PriceFault, Prices};
use bursar_core::money::Usd;

use crate::evm::ETH_DOLLARS;
use crate::faults::PlantedBug;
use crate::tape::Tape;

/// Milliseconds until a hanging API fails. The wallet waits for a shorter time.
const HANG_MS: u64 = 10_000;

/// A price API, which may be unavailable.
#[derive(Debug)]
pub(crate) struct WorldPrices {
    tape: Tape,
    clock: Arc<ManualClock>,
    plant: Option<PlantedBug>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    micros: u64,
    is_missing: bool,
    is_hanging: bool,
    /// The time since the world began, in milliseconds.
    now_ms: u64,
    /// The last price that the wallet read, and the time of that read. A planted bug returns it for twice as long as it
    /// counts.
    last_read: Option<(u64, u64)>,
}

impl WorldPrices {
    pub(crate) fn new(tape: &Tape, clock: &Arc<ManualClock>, plant: Option<PlantedBug>) -> Self {
        let micros = ETH_DOLLARS * 1_000_000;
        let inner =
            Inner { micros, is_missing: false, is_hanging: false, now_ms: 0, last_read: None };
        let (tape, clock) = (tape.clone(), Arc::clone(clock));
        Self { tape, clock, plant, inner: Mutex::new(inner) }
    }

    /// From now on, makes each call of the API fail after ten seconds, or get an answer at once again.
    pub(crate) fn set_hanging(&self, hangs: bool) {
        self.inner.lock().unwrap().is_hanging = hangs;
    }

    pub(crate) fn micros(&self) -> u64 {
        self.inner.lock().unwrap().micros
    }

    pub(crate) fn set(&self, micros: u64, missing: bool) {
        let mut inner = self.inner.lock().unwrap();
        (inner.micros, inner.is_missing) = (micros, missing);
    }

    pub(crate) fn pass_time(&self, ms: u64) {
        self.inner.lock().unwrap().now_ms += ms;
    }
}

impl Prices for WorldPrices {
    fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>> {
        let mut inner = self.inner.lock().unwrap();
        if self.plant == Some(PlantedBug::PriceTooOld)
            && let Some((micros, at)) = inner.last_read
            && inner.now_ms - at < 180_000
        {
            return Box::pin(async move { Ok(Usd(micros)) });
        }
        let hangs = inner.is_hanging;
        let micros = (!inner.is_missing && !hangs).then_some(inner.micros);
        inner.last_read = micros.map(|micros| (micros, inner.now_ms));
        self.tape.write(Observation::PriceRead(PriceRead::Api { micros }));
        let url: url::Url = "http://prices.test".parse().expect("a URL");
        let clock = Arc::clone(&self.clock);
        Box::pin(async move {
            if hangs {
                clock.sleep_until(clock.mono_ms().saturating_add(HANG_MS)).await;
            }
            let endpoint = EndpointLabel::of(&url);
            micros.map(Usd).ok_or(PriceFault::Malformed { endpoint })
        })
    }
}
