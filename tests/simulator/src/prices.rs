//! The price API of the world.

use std::sync::Mutex;

use bursar_auditor::observations::{Observation, PriceRead};
use bursar_chain::ports::{BoxFuture, EndpointLabel, PriceFault, Prices};
use bursar_core::money::Usd;

use crate::evm::ETH_DOLLARS;
use crate::faults::PlantedBug;
use crate::tape::Tape;

/// A price API, which may be missing.
#[derive(Debug)]
pub(crate) struct WorldPrices {
    tape: Tape,
    plant: Option<PlantedBug>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    micros: u64,
    missing: bool,
    /// Milliseconds since the world began.
    now_ms: u64,
    /// What the wallet read last, and when: a planted bug returns it for twice as long as it counts.
    read: Option<(u64, u64)>,
}

impl WorldPrices {
    pub(crate) fn new(tape: &Tape, plant: Option<PlantedBug>) -> Self {
        let micros = ETH_DOLLARS * 1_000_000;
        let inner = Inner { micros, missing: false, now_ms: 0, read: None };
        Self { tape: tape.clone(), plant, inner: Mutex::new(inner) }
    }

    pub(crate) fn micros(&self) -> u64 {
        self.inner.lock().unwrap().micros
    }

    pub(crate) fn set(&self, micros: u64, missing: bool) {
        let mut inner = self.inner.lock().unwrap();
        (inner.micros, inner.missing) = (micros, missing);
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.inner.lock().unwrap().now_ms += ms;
    }
}

impl Prices for WorldPrices {
    fn eth(&self) -> BoxFuture<'_, Result<Usd, PriceFault>> {
        let mut inner = self.inner.lock().unwrap();
        if self.plant == Some(PlantedBug::PriceTooOld)
            && let Some((micros, at)) = inner.read
            && inner.now_ms - at < 180_000
        {
            return Box::pin(async move { Ok(Usd(micros)) });
        }
        let micros = (!inner.missing).then_some(inner.micros);
        inner.read = micros.map(|micros| (micros, inner.now_ms));
        self.tape.write(Observation::PriceRead(PriceRead::Api { micros }));
        let url: url::Url = "http://prices.test".parse().expect("a URL");
        Box::pin(async move {
            let endpoint = EndpointLabel::of(&url);
            micros.map(Usd).ok_or(PriceFault::Malformed { endpoint })
        })
    }
}
